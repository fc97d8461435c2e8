"""An engine as far as its KV-cache events go, made of what real engines use: pyzmq and msgpack.

Publishes on a PUB socket and answers replay requests on a ROUTER socket, as vLLM does it: frames
topic, number, payload; one answer for each batch that it keeps, then an end marker. Written from
the description of the wire, not from any engine's code.

Reads one JSON object a line and answers each with one line:

    {"do": "publish", "events": [...]}   publishes a batch; events are arrays or maps, as given
    {"do": "lose", "events": [...]}      numbers and keeps a batch, and doesn't send it
    {"do": "asked"}                      where replays were asked for from
    {"do": "stop"}                       ends

The first line that it writes says where it is. Arguments: how many batches it keeps, then the two
ports, 0 for any.
"""

import collections
import json
import sys
import time

import msgpack
import zmq

TOPIC = b"kv-events"
END = (2**64 - 1).to_bytes(8, "big")


def bind(context, kind, port):
    socket = context.socket(kind)
    socket.linger = 0
    # A port is free again a moment after the process before is gone.
    for attempt in range(400):
        try:
            socket.bind(f"tcp://127.0.0.1:{port or '*'}")
            return socket
        except zmq.ZMQError:
            if attempt == 399:
                raise
            time.sleep(0.01)


class Engine:
    def __init__(self, keeps, port, replay_port):
        context = zmq.Context()
        # Whoever connects for events asks for old ones next: the replays come up first.
        self.replays = bind(context, zmq.ROUTER, replay_port)
        self.events = bind(context, zmq.PUB, port)
        self.kept = collections.deque(maxlen=keeps)
        self.asked = []
        self.next = 0

    def where(self):
        at = [socket.last_endpoint.decode() for socket in (self.events, self.replays)]
        return dict(zip(("endpoint", "replay_endpoint"), at))

    def batch(self, events):
        payload = msgpack.packb([time.time(), events, 0])
        batch = (self.next.to_bytes(8, "big"), payload)
        self.kept.append(batch)
        self.next += 1
        return batch

    def answer_replay(self):
        request = self.replays.recv_multipart()
        if len(request) != 3:
            return
        identity, _, start = request
        start = int.from_bytes(start, "big")
        self.asked.append(start)
        for number, payload in self.kept:
            if int.from_bytes(number, "big") >= start:
                self.replays.send_multipart([identity, b"", TOPIC, number, payload])
        self.replays.send_multipart([identity, b"", b"", END, b""])

    def do(self, command):
        what = command["do"]
        if what == "publish":
            number, payload = self.batch(command["events"])
            self.events.send_multipart([TOPIC, number, payload])
        elif what == "lose":
            self.batch(command["events"])
        elif what == "asked":
            return {"asked": self.asked}
        return {"next": self.next}

    def run(self):
        poller = zmq.Poller()
        poller.register(self.replays, zmq.POLLIN)
        poller.register(sys.stdin.fileno(), zmq.POLLIN)
        print(json.dumps(self.where()), flush=True)
        while True:
            ready = dict(poller.poll())
            if self.replays in ready:
                self.answer_replay()
            if sys.stdin.fileno() in ready:
                line = sys.stdin.readline()
                # Whoever started it is gone, or wants it to be.
                if not line or json.loads(line)["do"] == "stop":
                    return
                print(json.dumps(self.do(json.loads(line))), flush=True)


if __name__ == "__main__":
    Engine(*(int(argument) for argument in sys.argv[1:4])).run()
