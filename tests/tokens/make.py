"""Makes the tokenizers and the golden answers in this folder. Run by hand:

    pip install 'transformers==5.19.*' 'tokenizers==0.23.*' openai pydantic
    python make.py path/to/vllm        # the folder `vllm` of vLLM 0.32's sources, or of its wheel

The answers are those of vLLM's own code (its request models, `parse_chat_messages`,
`safe_apply_chat_template`) over transformers' tokenizers; only what needs a model or a GPU is left
out. The tokenizers are small and trained on the words below; the templates are in the style of
well-known models'.
"""

import __future__
import ast
import datetime
import importlib
import json
import pathlib
import sys
import types

import jinja2.ext
import jinja2.meta
import jinja2.sandbox
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer
from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2025, 3, 9, 8, 7, 6)


# ---------------------------------------------------------------- vLLM, without the rest of it
class Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Dummy

    def __or__(cls, other):
        return cls

    def __ror__(cls, other):
        return cls

    def __getitem__(cls, item):
        return cls

    def __call__(cls, *args, **kwargs):
        return args[0] if args and isinstance(args[0], dict) else super().__call__(*args, **kwargs)


class Dummy(metaclass=Meta):
    """Whatever vLLM imports that isn't here."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: Dummy()

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) else Dummy()

    def __class_getitem__(cls, item):
        return cls

    @classmethod
    def __get_pydantic_core_schema__(cls, *args):
        from pydantic_core import core_schema

        return core_schema.any_schema()


class Refusal(ValueError):
    def __init__(self, message="", **kwargs):
        super().__init__(message)


def load(root, file, **known):
    source = (root / file).read_text()
    module = types.ModuleType("vllm_" + file.replace("/", "_"))
    scope = module.__dict__
    quiet = lambda *args, **kwargs: None
    names = ("warning", "info", "debug", "exception", "warning_once", "info_once", "debug_once")
    logger = types.SimpleNamespace(**{name: quiet for name in names})
    scope.update(init_logger=lambda name: logger, VLLMValidationError=Refusal, **known)
    sys.modules[module.__name__] = module
    flags = __future__.annotations.compiler_flag if "import annotations" in source else 0
    for node in ast.parse(source).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                try:
                    if isinstance(node, ast.Import):
                        found = importlib.import_module(alias.name)
                        scope[name] = found if alias.asname else importlib.import_module(name)
                    elif node.module != "__future__" and name not in scope:
                        scope[name] = getattr(importlib.import_module(node.module), alias.name)
                except Exception:
                    scope[name] = Dummy
            continue
        for _ in range(50):
            try:
                exec(compile(ast.Module([node], []), file, "exec", flags=flags), scope)
                break
            except NameError as error:
                scope[error.name] = Dummy
    return scope


class Vllm:
    def __init__(self, root):
        self.chat = chat = load(root, "renderers/chat_utils.py")
        shared = ("parse_chat_messages", "load_chat_template", "ChatTemplateResolutionError")
        self.hf = load(root, "renderers/hf.py", **{name: chat[name] for name in shared})
        self.hf["supports_kw"] = load(root, "utils/func_utils.py")["supports_kw"]
        self.hf["_try_get_processor_chat_template"] = lambda *args, **kwargs: None
        params = load(root, "renderers/params.py")
        base = load(root, "entrypoints/serve/engine/protocol.py")["OpenAIBaseModel"]
        shared = load(root, "entrypoints/generate/base/protocol.py", OpenAIBaseModel=base)
        shared = {
            name: value
            for name, value in shared.items()
            if isinstance(value, type) and value.__module__.startswith("vllm_")
        }
        names = ("ChatParams", "TokenizeParams", "merge_kwargs")
        self.request = load(
            root,
            "entrypoints/openai/chat_completion/protocol.py",
            ChatCompletionMessageParam=chat["ChatCompletionMessageParam"],
            **{name: params[name] for name in names},
            **{**shared, "OpenAIBaseModel": base},
        )["ChatCompletionRequest"]
        self.merge = params["merge_kwargs"]
        self.model = types.SimpleNamespace(
            multimodal_config=None,
            enable_prompt_embeds=False,
            allowed_local_media_path="",
            allowed_media_domains=None,
            revision=None,
            tokenizer_revision=None,
            code_revision=None,
            model=None,
            tokenizer=None,
            hf_config=types.SimpleNamespace(model_type="llama"),
            trust_remote_code=False,
        )

    def render(self, tokenizer, body):
        """`OnlineRenderer.render_chat` and `HfRenderer.render_messages`, in short."""
        request = self.request.model_validate(json.loads(json.dumps(body)))
        tools = None if request.tools is None else [tool.model_dump() for tool in request.tools]
        params = request.build_chat_params(None, "auto")
        params = params.with_defaults(self.merge(None, dict(tools=tools, tokenize=False)))
        form = self.hf["resolve_chat_template_content_format"](
            chat_template=None,
            tools=params.chat_template_kwargs.get("tools"),
            given_format="auto",
            tokenizer=tokenizer,
            model_config=self.model,
        )
        self.hf["_CONTENT_FORMATS"].clear()
        conversation, media, _ = self.chat["parse_chat_messages"](
            request.messages, self.model, content_format=form
        )
        assert media is None
        text = self.hf["safe_apply_chat_template"](
            self.model, tokenizer, conversation, **params.get_apply_chat_template_kwargs()
        )
        options = request.build_tok_params(types.SimpleNamespace(max_model_len=1 << 20))
        return form, text, options


# ---------------------------------------------------------------- tokenizers
WORDS = """The quick brown fox jumps over the lazy dog, and the dog doesn't care. I'll say it's been 3.14159 or 42
times since 1984 that we've asked: what is the capital of France? Paris! Der Fluß fließt über die Brücke nach Süden.
El niño comió piñas mañana. Съешь ещё этих мягких французских булок. 今日は良い天気ですね。 中文分词测试，你好世界。 안녕하세요 세계
def main():\n    for i in range(10):\n        print(f"{i}: {i ** 2}")\n\n\treturn None\n{"name": "get_weather",
"parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city's name"}}}}
You are a helpful assistant with access to functions. Function call: please answer the user's question briefly. system user
assistant tool think thinking <tool_call> </tool_call> function description parameters required arguments 😀🎉 weather in
temperature degrees celsius today tomorrow result results number names of cities and countries of the world """
GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = GPT4.replace(r"\p{N}{1,3}", r"\p{N}")


def corpus():
    text = WORDS + pathlib.Path(__file__).read_text() * 2
    return [line + "\n" for line in text.split("\n")] * 3


def special(*tokens):
    return [AddedToken(token, special=True, normalized=False) for token in tokens]


def bytes_bpe(pattern, tokens, others=(), normalizer=None, ignore_merges=False, digits=False, size=620):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    splits = []
    if digits:
        splits += [
            pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
            pre_tokenizers.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
        ]
    splits += [
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_tokens(special(*tokens))
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in others])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def pieces_bpe(tokens, legacy, size=520):
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    bare = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    if legacy:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=bare, show_progress=False)
    learner.train_from_iterator(corpus(), trainer)
    model = json.loads(tokenizer.to_str())
    model["model"] |= {key: json.loads(learner.to_str())["model"][key] for key in ("vocab", "merges")}
    tokenizer = Tokenizer.from_str(json.dumps(model))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>", *tokens))
    return tokenizer


def around(tokenizer, bos=None, eos=None):
    parts = [f"{bos}:0" if bos else None, "$A:0", f"{eos}:0" if eos else None]
    template = processors.TemplateProcessing(
        single=" ".join(filter(None, parts)),
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (bos, eos) if token],
    )
    before = tokenizer.post_processor
    tokenizer.post_processor = processors.Sequence([before, template]) if before else template


def save(name, tokenizer, **config):
    folder = HERE / name
    text = json.loads(tokenizer.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(text, ensure_ascii=False, separators=(",", ":")))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1000000, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1))


def read(name, file):
    text = (HERE / name / file).read_text()
    return text.removesuffix("\n")


def make_tokenizers():
    llama = bytes_bpe(
        GPT4,
        ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"],
        ignore_merges=True,
    )
    around(llama, bos="<|begin_of_text|>")
    save("llama", llama, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>")

    qwen = bytes_bpe(
        QWEN,
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        others=["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"],
        normalizer=normalizers.NFC(),
    )
    save("qwen", qwen, bos_token=None, eos_token="<|im_end|>", pad_token="<|endoftext|>")

    controls = ["[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]"]
    mistral = pieces_bpe(controls, legacy=True)
    around(mistral, bos="<s>")
    save("mistral", mistral, bos_token="<s>", eos_token="</s>", unk_token="<unk>")

    chatml = bytes_bpe(GPT4, ["<|im_start|>", "<|im_end|>", "<|end|>"])
    chatml.add_tokens([
        AddedToken("<|lstrip|>", lstrip=True, special=True, normalized=False),
        AddedToken("<|rstrip|>", rstrip=True, special=True, normalized=False),
        AddedToken("<|word|>", single_word=True, special=True, normalized=False),
        AddedToken("normalized", normalized=True),
        AddedToken("<|im_start|><|im_end|>", special=True, normalized=False),
    ])
    around(chatml, bos="<|end|>", eos="<|im_end|>")
    save("chatml", chatml, eos_token="<|im_end|>", chat_template=(HERE / "chatml/template.in").read_text())

    gemma = pieces_bpe(["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"], legacy=False)
    around(gemma, bos="<bos>")
    save("gemma", gemma, bos_token="<bos>", eos_token="<eos>", chat_template=read("gemma", "template.in"))

    marks = ["｜begin▁of▁sentence｜", "｜end▁of▁sentence｜", "｜User｜", "｜Assistant｜", "｜tool▁calls▁begin｜", "｜tool▁calls▁end｜"]
    marks += ["｜tool▁call▁begin｜", "｜tool▁call▁end｜", "｜tool▁sep｜", "｜tool▁outputs▁begin｜", "｜tool▁outputs▁end｜"]
    marks += ["｜tool▁output▁begin｜", "｜tool▁output▁end｜"]
    marks = [f"<{mark}>" for mark in marks]
    pattern = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    deepseek = bytes_bpe(pattern, marks[:2], others=marks[2:], digits=True)
    around(deepseek, bos=marks[0])
    token = lambda text: {"__type": "AddedToken", "content": text, "lstrip": False, "rstrip": False, "normalized": True, "single_word": False}
    save("deepseek", deepseek, bos_token=token(marks[0]), eos_token=token(marks[1]), chat_template=read("deepseek", "template.in"))

    parts = bytes_bpe(GPT4, ["<|turn|>", "<|image|>"])
    save("parts", parts, eos_token="<|turn|>")

    named = bytes_bpe(QWEN, ["<|user|>", "<|assistant|>", "<|system|>", "<|tool|>", "<|tools|>", "<BOS>", "<EOS>"])
    templates = [{"name": name, "template": read("named", f"{name}.in")} for name in ("default", "tool_use")]
    save("named", named, bos_token="<BOS>", eos_token="<EOS>", chat_template=templates)


# ---------------------------------------------------------------- cases
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Says how the weather is \"today\" – in °C.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city's name", "enum": ["paris", "rome"]},
                "days": {"type": ["integer", "null"], "default": 1.0, "minimum": 1e-7, "maximum": 1e16},
            },
            "required": ["city"],
        },
    },
}
BARE = {"function": {"parameters": {"type": "object", "properties": {}}, "name": "no_description"}, "type": "function"}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, id="abc123XYZ", **more):
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}, **more}


SYSTEM, ASK, ANSWER, MORE = (
    turn("system", "You are a helpful assistant. Answer briefly."),
    turn("user", "  What is the capital of France?\n"),
    turn("assistant", "Paris, of course."),
    turn("user", "And the weather there? 今日は 42°C 😀"),
)
USED = [
    ASK,
    turn("assistant", None, tool_calls=[call("get_weather", '{"city": "paris", "days": 2.50, "deep": {"é": [true, null, 1e3]}}', index=0)]),
    turn("tool", '{"celsius": 21}', tool_call_id="abc123XYZ"),
]
CHATS = {
    "one-turn": dict(messages=[ASK]),
    "system": dict(messages=[SYSTEM, ASK]),
    "turns": dict(messages=[SYSTEM, ASK, ANSWER, MORE]),
    "no-generation-prompt": dict(messages=[ASK, ANSWER], add_generation_prompt=False),
    "continue": dict(messages=[ASK, turn("assistant", "Paris, of ")], add_generation_prompt=False, continue_final_message=True),
    "continue-parts": dict(messages=[ASK, turn("assistant", [{"type": "text", "text": "Paris"}])], add_generation_prompt=False, continue_final_message=True),
    "both": dict(messages=[ASK], continue_final_message=True),
    "tools": dict(messages=[SYSTEM, ASK], tools=[WEATHER, BARE]),
    "tools-none": dict(messages=[ASK], tools=[WEATHER], tool_choice="none"),
    "tool-use": dict(messages=USED, tools=[WEATHER]),
    "tool-use-goes-on": dict(messages=[SYSTEM, *USED, turn("assistant", "21 degrees."), MORE], tools=[WEATHER]),
    "two-calls": dict(
        messages=[
            ASK,
            turn("assistant", "", tool_calls=[call("get_weather", '{"city":"rome"}'), call("no_description", "", id="123456789")]),
            turn("tool", "a", tool_call_id="abc123XYZ"),
            turn("tool", [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}], tool_call_id="123456789"),
        ],
        tools=[WEATHER, BARE],
    ),
    "bad-arguments": dict(messages=[ASK, turn("assistant", "x", tool_calls=[call("f", "not json"), call("g", "[1]")])], tools=[BARE]),
    "no-calls": dict(messages=[ASK, turn("assistant", "x", tool_calls=[]), MORE]),
    "call-without-content": dict(messages=[ASK, {"role": "assistant", "tool_calls": [call("f", '{"b": 1, "a": -0.0}')]}]),
    "parts": dict(messages=[turn("user", [{"type": "text", "text": "one"}, {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}, "three"])]),
    "empty": dict(messages=[turn("user", ""), turn("assistant", []), turn("user", [])]),
    "reasoning": dict(messages=[ASK, turn("assistant", "Paris.", reasoning_content="It is \n Paris."), MORE, turn("assistant", "Fine.", reasoning="Look.")], add_generation_prompt=False),
    "think-tags": dict(messages=[ASK, turn("assistant", "<think>\nHm.\n</think>\n\nParis."), MORE]),
    "no-thinking": dict(messages=[ASK], chat_template_kwargs={"enable_thinking": False, "effort": "auto", "unused": None}),
    "effort": dict(messages=[ASK], reasoning_effort="none", chat_template_kwargs={"effort": 0.5, "date_string": "1 Jan 2000"}),
    "documents": dict(messages=[ASK], documents=[{"title": "Über", "text": "a b c d\ne f"}, {"title": "B", "text": ""}]),
    "developer": dict(messages=[turn("developer", "Be brief."), ASK, turn("system", "Be kind."), MORE]),
    "developer-first": dict(messages=[turn("developer", [{"type": "text", "text": "Be brief."}]), ASK]),
    "roles": dict(messages=[turn("user", "a"), turn("user", "b"), turn("skip", "c"), turn("critic", "d", name="x"), turn("stop", "e"), turn("user", "f")]),
    "odd-text": dict(messages=[turn("user", "<|im_start|>x<|im_end|> </s>[INST] <think> a\u0301\u00e9 \r\n\t\u3000\u00a0 \x7f\u200b don't DON'T I'LL   \n\n\n   x  " + " " * 40 + "12345678")]),
    "billing": dict(messages=[turn("system", "x-anthropic-billing-header: cch=1\nReal."), ASK]),
    "billing-only": dict(messages=[turn("system", [{"type": "text", "text": "x-anthropic-billing-header: cch=1"}, {"type": "text", "text": "Real."}]), ASK]),
    "special-tokens": dict(messages=[ASK], add_special_tokens=True),
    "cut": dict(messages=[SYSTEM, ASK], truncate_prompt_tokens=7),
    "cut-left": dict(messages=[SYSTEM, ASK], truncate_prompt_tokens=7, truncation_side="left"),
}
TEXTS = [
    "",
    " ",
    "Hello, world!",
    "  two  spaces\n\n and lines\r\n\r\n\tx ",
    "The capital of France is <s> Paris </s><|im_end|> <|eot_id|>\n<|im_start|>user",
    "it's WE'LL you'Re 1234567 3.14 ½ ² ٣ 一二三 ﬁ",
    "a\u0301e\u0308 \u00e9 \u1100\u1161 \u212b \ufb01 \u200d👩‍👩‍👧",
    "    for i in range(10):\n        print(i)\n\n\n\n",
    "今日は良い天気ですね。你好，世界！안녕하세요",
    "[INST] x [/INST]<bos><start_of_turn><｜User｜>y<｜Assistant｜>  z",
    "a <|lstrip|> b <|rstrip|>  c <|word|> d<|word|>e normalized abnormalized <|im_start|><|im_end|> \n<|lstrip|><|rstrip|> <|im_end|>",
]


def answers(name, vllm):
    # As vLLM reads it for models that generate.
    tokenizer = AutoTokenizer.from_pretrained(HERE / name, truncation_side="left")
    chats = []
    for case, body in CHATS.items():
        row = {"case": case}
        try:
            form, text, options = vllm.render(tokenizer, body)
            ids = tokenizer.encode(text, **options.get_encode_kwargs())
            ids = options._token_truncation(tokenizer, ids)
            row |= {"format": form, "text": text, "ids": ids}
        except Exception as error:
            row["refused"] = str(error).split("\n")[0][:200]
        chats.append(row)
    texts = []
    for text in TEXTS:
        row = {"text": text}
        for special in (True, False):
            row["with" if special else "without"] = tokenizer.encode(text, add_special_tokens=special)
        for side in (None, "left", "right"):
            cut = dict(truncation=True, max_length=5) if side is None else {}
            ids = tokenizer.encode(text, **cut)
            row[f"cut-{side}"] = ids if side is None else (ids[-5:] if side == "left" else ids[:5])
        texts.append(row)
    return {"chats": chats, "texts": texts}


def main():
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW

    chat_template_utils.datetime = Clock
    vllm = Vllm(pathlib.Path(sys.argv[1]))
    if "--tokenizers" in sys.argv:
        make_tokenizers()
    write = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (HERE / "chats.json").write_text(json.dumps(CHATS, ensure_ascii=False, indent=1) + "\n")
    folders = sorted(path.parent for path in HERE.glob("*/tokenizer.json"))
    for folder in (folder for folder in folders if folder.name != "recorded"):
        golden = answers(folder.name, vllm)
        rows = lambda name: ",\n".join(map(write, golden[name]))
        text = '{"chats":[\n' + rows("chats") + '\n],"texts":[\n' + rows("texts") + "\n]}\n"
        (folder / "golden.json").write_text(text)
        refused = [row["case"] + ": " + row["refused"] for row in golden["chats"] if "refused" in row]
        print(f"{folder.name}: {len(refused)} of {len(golden['chats'])} chats refused", *refused, sep="\n  ")


main()
