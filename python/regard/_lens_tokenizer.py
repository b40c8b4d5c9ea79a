"""The tokenizer of a model, as studies that are written for TransformerLens ask it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


from ._lens_cache import taken
from ._model import Model, _find
from ._regard import Opened


class Tokenizer:
    """What studies ask of `model.tokenizer`."""

    bos_token_id: Any
    eos_token_id: Any
    pad_token_id: Any

    def __init__(self, plain: Model, begins: list[int]) -> None:
        self._plain, self._begins = plain, begins
        files: dict[str, Any] = {}
        if plain.name not in Opened.BUNDLED and (path := _find(plain._where, False)).is_dir():
            for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
                if (path / name).exists():
                    files |= json.loads(Path(path, name).read_text(encoding="utf-8"))
        for name in ("bos", "eos", "pad"):
            token = files.get(f"{name}_token")
            token = token.get("content") if isinstance(token, dict) else token
            known = plain.to_single_token(token) if isinstance(token, str) else files.get(f"{name}_token_id")
            setattr(self, f"{name}_token_id", known[0] if isinstance(known, list) else known)
        self.bos_token_id = begins[0] if begins else self.bos_token_id
        self.eos_token_id = self.bos_token_id if self.eos_token_id is None else self.eos_token_id
        self.pad_token_id = next((i for i in (self.pad_token_id, self.eos_token_id, 0) if i is not None))
        self.bos_token, self.eos_token, self.pad_token = (None if i is None else plain._opened.names([i])[0] for i in (self.bos_token_id, self.eos_token_id, self.pad_token_id))

    def ids(self, text: str, prepend_bos: bool) -> list[int]:
        """The ids of a text, with or without the token that begins one."""
        ids = [int(i) for i in self._plain.to_tokens(text)][len(self._begins) :]
        return [self.bos_token_id, *ids] if prepend_bos and self.bos_token_id is not None else ids

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text."""
        return self.ids(text, add_special_tokens and bool(self._begins))

    def __call__(self, text: Any, **options: Any) -> dict[str, Any]:
        return {"input_ids": self.encode(text, **options) if isinstance(text, str) else [self.encode(one, **options) for one in text]}

    def decode(self, ids: Any) -> str:
        """The text of ids, with that of special tokens."""
        return self._plain.to_string(taken(ids))
