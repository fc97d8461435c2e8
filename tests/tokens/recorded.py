"""Makes recorded/tokenizer.json: as much of the recorded engine's tokenizer as its prompts show.

    python recorded.py path/to/kvevents/captures

The recordings have prompts as text and as the engine's tokens, and no tokenizer. The text of each
token follows from them: single bytes stand in their usual order, and a text must be the sequence of
its tokens' texts. What no prompt has stays unknown, so this tokenizer is right for texts of the
recordings' words alone. Merges are made up so that they give those tokens.
"""

import glob
import json
import pathlib
import sys

import regex
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

HERE = pathlib.Path(__file__).parent
WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
MARKS = regex.compile(r"(<\|im_start\|>|<\|im_end\|>)")
SPECIAL = {"<|im_start|>": 3, "<|im_end|>": 4}


def letters():
    codes = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in codes]
    return {**{byte: chr(byte) for byte in codes}, **{byte: chr(256 + at) for at, byte in enumerate(others)}}


LETTERS = letters()
known = {5 + at: letter for at, letter in enumerate(sorted(LETTERS.values()))}


def prompts(folder):
    for file in sorted(glob.glob(f"{folder}/*/http*/index.jsonl")):
        for line in open(file):
            row = json.loads(line)
            body, ids = row.get("body"), row.get("prompt_token_ids")
            if not isinstance(body, dict) or not ids or not isinstance(ids[0], int):
                continue
            if row["path"].endswith("chat/completions"):
                turn = "<|im_start|>{role}\n{content}<|im_end|>\n"
                yield "".join(turn.format(**m) for m in body["messages"]) + "<|im_start|>assistant\n", ids
            elif isinstance(body.get("prompt"), str):
                yield body["prompt"], ids


def words(text):
    for piece in MARKS.split(text):
        if piece in SPECIAL:
            yield piece
        else:
            for word in WORDS.findall(piece):
                yield "".join(LETTERS[byte] for byte in word.encode())


def readings(word, ids, at):
    """All ways to read a word as tokens from a place on, few tokens first."""
    found = []

    def read(start, end, new):
        if start == len(word):
            found.append((end, new))
        elif end < len(ids) and ids[end] not in SPECIAL.values():
            text = known.get(ids[end], new.get(ids[end]))
            if text is not None:
                if word.startswith(text, start):
                    read(start + len(text), end + 1, new)
            else:
                for stop in range(len(word), start + 1, -1):
                    read(stop, end + 1, {**new, ids[end]: word[start:stop]})

    read(0, at, {})
    return sorted(found, key=lambda one: one[0])


def solve(all_words, ids, place=0, at=0):
    while place < len(all_words):
        word = all_words[place]
        if word in SPECIAL:
            if at >= len(ids) or ids[at] != SPECIAL[word]:
                return False
            at += 1
        else:
            ways = readings(word, ids, at)
            for end, new in ways[:-1]:
                known.update(new)
                if solve(all_words, ids, place + 1, end):
                    return True
                for token in new:
                    del known[token]
            if not ways:
                return False
            at = ways[-1][0]
            known.update(ways[-1][1])
        place += 1
    return at == len(ids)


def main():
    sys.setrecursionlimit(100_000)
    rows = list(prompts(sys.argv[1]))
    for text, ids in rows:
        assert solve(list(words(text)), ids), text
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, **SPECIAL}
    vocabulary |= {text: token for token, text in sorted(known.items())}
    merges, spare = [], iter(range(1000, 10_000))
    # Long tokens with a space are whole words, found without merges. Parts of words come last, so
    # that they take nothing from the words that begin with a capital.
    made = [text for text in known.values() if len(text) > 1 and (text[0] != "Ġ" or len(text) < 4)]
    for text in sorted(made, key=lambda text: (text[0].islower(), -len(text))):
        for end in range(2, len(text) + 1):
            pair = (text[: end - 1], text[end - 1])
            if pair not in merges:
                merges.append(pair)
            if text[:end] not in vocabulary:
                vocabulary[text[:end]] = next(spare)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in ("<unk>", "<s>", "</s>", *SPECIAL)])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrong = [text for text, ids in rows if tokenizer.encode(text).ids != ids]
    print(len(rows), "prompts,", len(wrong), "wrong")
    text = json.loads(tokenizer.to_str())
    (HERE / "recorded/tokenizer.json").write_text(json.dumps(text, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
