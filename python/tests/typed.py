"""What an editor knows of the package. test.sh runs mypy on it: an error that does not come, because a type is Any, is an error."""

import regard

model = regard.Model()
logits, cache = model.run_with_cache("a")
logits.nonsense  # type: ignore[attr-defined]
cache.nonsense  # type: ignore[attr-defined]
cache["pattern", 1].nonsense  # type: ignore[attr-defined]
model("a").nonsense  # type: ignore[attr-defined]
model.run_with_hooks("a").nonsense  # type: ignore[attr-defined]
model.nonsense  # type: ignore[attr-defined]
model.W_E.nonsense  # type: ignore[attr-defined]
model.sweep("a", ablate="each-head", logit="b").effect.nonsense  # type: ignore[attr-defined]
