#!/usr/bin/env python3
"""Publishes KV-cache events as vLLM does, over real libzmq sockets, on command.

A peer for tests: it binds a PUB and a ROUTER socket (or connects the PUB), then does what it is
told, one JSON command a line on standard input, and answers each with one JSON line on standard
output. Nothing happens by itself and nothing is random; it ends with its input. Needs pyzmq and
msgpack.

    publisher.py [--endpoint tcp://127.0.0.1:0] [--replay-endpoint tcp://127.0.0.1:0]
                 [--topic kv-events] [--buffer-steps 100] [--rank 0]
                 [--encoding map|array] [--frames new|old]

The first line of output tells where it is: {"endpoint": ..., "replay_endpoint": ...}. Commands:

    {"publish": [EVENT, ...]}   number, keep and send a batch; {"lose": [...]} keeps it only
    {"publish": [...], "ts": 5} the same with a time of its own
    {"send": ["base64", ...]}   send these frames as they are
    {"asked": true}             where replays were asked for from, so far
    {"disconnect": true}        close the PUB socket and bind it anew: same process, new connection

An EVENT is {"stored": [first, blocks], ...} for blocks of two tokens from `first` on, each named
by its first token, {"removed": [hash, ...], ...}, "cleared", or any other map or array, sent as it is.
Further keys of an event are fields of it: {"stored": [1, 3], "medium": "CPU", "group_idx": 0}.
"""

import argparse
import base64
import collections
import json
import sys
import threading
import time

import msgpack
import zmq

STORED = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium",
          "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"]
REMOVED = ["block_hashes", "medium", "group_idx"]


def encode(event, encoding):
    """An event as vLLM writes it: a map from 0.24 on, an array before."""
    if event == "cleared":
        tag, order, fields = "AllBlocksCleared", [], {}
    elif isinstance(event, dict) and "stored" in event:
        first, blocks = event["stored"]
        fields = {
            "block_hashes": [first + 2 * at for at in range(blocks)],
            "parent_block_hash": first - 2 if first > 2 else None,
            "token_ids": list(range(first, first + 2 * blocks)),
            "block_size": 2,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
        }
        fields.update({key: value for key, value in event.items() if key != "stored"})
        tag, order = "BlockStored", STORED
    elif isinstance(event, dict) and "removed" in event:
        fields = {"block_hashes": event["removed"], "medium": "GPU"}
        fields.update({key: value for key, value in event.items() if key != "removed"})
        tag, order = "BlockRemoved", REMOVED
    else:
        return event
    if encoding == "map":
        return {"type": tag, **fields}
    values = [fields.get(name) for name in order]
    while values and values[-1] is None:
        values.pop()
    return [tag, *values]


class Engine:
    def __init__(self, options):
        self.options = options
        self.context = zmq.Context()
        self.next = 0
        self.kept = collections.deque(maxlen=options.buffer_steps)
        self.asked = []
        self.lock = threading.Lock()
        self.router = self.context.socket(zmq.ROUTER)
        self.router.bind(options.replay_endpoint)
        self.replay_endpoint = self.router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.open(options.endpoint)
        threading.Thread(target=self.replay, daemon=True).start()

    def open(self, endpoint):
        self.publisher = self.context.socket(zmq.PUB)
        self.publisher.setsockopt(zmq.LINGER, 0)
        if self.options.connect:
            self.publisher.connect(endpoint)
        else:
            self.publisher.bind(endpoint)
        self.endpoint = self.publisher.getsockopt_string(zmq.LAST_ENDPOINT)

    def replay(self):
        """Answers as vLLM's publisher does; a request of other frames is never answered."""
        while True:
            request = self.router.recv_multipart()
            if len(request) != 3:
                continue
            identity, _, start = request
            start = int.from_bytes(start, "big")
            with self.lock:
                self.asked.append(start)
                kept = [batch for batch in self.kept if batch[0] >= start]
            end = [b"", b"\xff" * 8, b""]
            answers = [[self.options.topic.encode(), seq.to_bytes(8, "big"), payload]
                       for seq, payload in kept]
            for frames in [*answers, end]:
                if self.options.frames == "old":
                    frames = frames[1:]
                self.router.send_multipart([identity, b"", *frames])

    def batch(self, events, ts):
        events = [encode(event, self.options.encoding) for event in events]
        payload = msgpack.packb([ts, events, self.options.rank])
        with self.lock:
            seq, self.next = self.next, self.next + 1
            self.kept.append((seq, payload))
        return seq, payload

    def command(self, command):
        ts = command.get("ts", time.time())
        if "lose" in command:
            seq, _ = self.batch(command["lose"], ts)
            return {"seq": seq}
        if "publish" in command:
            seq, payload = self.batch(command["publish"], ts)
            frames = [self.options.topic.encode(), seq.to_bytes(8, "big"), payload]
            self.publisher.send_multipart(frames)
            return {"seq": seq}
        if "send" in command:
            self.publisher.send_multipart([base64.b64decode(frame) for frame in command["send"]])
            return {"sent": len(command["send"])}
        if "asked" in command:
            with self.lock:
                return {"asked": list(self.asked)}
        if "disconnect" in command:
            endpoint = self.endpoint
            self.publisher.close()
            for _ in range(400):
                try:
                    self.open(endpoint)
                    return {"endpoint": self.endpoint}
                except zmq.ZMQError:
                    time.sleep(0.005)
        return {"error": f"unknown command {command}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoint", default="tcp://127.0.0.1:0")
    parser.add_argument("--replay-endpoint", default="tcp://127.0.0.1:0")
    parser.add_argument("--connect", action="store_true", help="connect the PUB socket")
    parser.add_argument("--topic", default="kv-events")
    parser.add_argument("--buffer-steps", type=int, default=100)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--encoding", choices=["map", "array"], default="map")
    parser.add_argument("--frames", choices=["new", "old"], default="new")
    engine = Engine(parser.parse_args())

    def say(answer):
        print(json.dumps(answer), flush=True)

    say({"endpoint": engine.endpoint, "replay_endpoint": engine.replay_endpoint})
    for line in sys.stdin:
        say(engine.command(json.loads(line)))


if __name__ == "__main__":
    main()
