"""Writes expected.json: what transformers makes of each template of this folder, and of each line of expressions.txt.

    python3 expected.py

The templates are those of models under the Apache License 2.0 or the MIT License, as the package trl has them.
"""
import datetime
import json
from pathlib import Path

from transformers.utils import chat_template_utils

HERE = Path(__file__).parent
NOW = datetime.datetime(2024, 7, 26, 13, 5, 9, tzinfo=datetime.timezone.utc)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat_template_utils.datetime = Clock


def message(role, content):
    return {"role": role, "content": content}


CHATS = [
    [message("user", "Who sat?")],
    [message("system", "Be brief."), message("user", " Hi <b>&'\"</b>\n")],
    [message("user", "a"), message("assistant", "<think>x\n</think>\n\nb"), message("user", "c")],
    [message("assistant", "a"), message("assistant", "b")],
    [],
]


def render(template, values):
    try:
        return chat_template_utils._compile_jinja_template(template).render(**values)
    except Exception:
        return None  # refused


def prompts(template):
    values = {"tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    return [render(template, {"messages": chat, **values}) for chat in CHATS]


lines = (HERE / "expressions.txt").read_text().splitlines()
expected = {
    "now": int(NOW.timestamp()),
    "chats": CHATS,
    "templates": {path.name: prompts(path.read_text()) for path in sorted(HERE.glob("*.jinja"))},
    "expressions": [[line, render(line, {"x": "hey"})] for line in lines],
}
(HERE / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
