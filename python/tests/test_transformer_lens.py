"""Every place that TransformerLens names too, in every family that both know, with norms that are not ones.

It runs where TransformerLens is installed (`pip install transformer-lens`): in the nightly workflow.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before it is imported: no name is looked up

from pathlib import Path

import numpy as np
import pytest
import regard

bridge = pytest.importorskip("transformer_lens.model_bridge", reason="NOT CHECKED: TransformerLens is not installed")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

GOLDEN = Path(os.environ.get("GOLDEN", Path(__file__).parents[2] / "tests" / "golden" / "models"))
FAMILIES = [
    *("gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "gpt_oss", "smollm3", "granite", "olmo2", "olmo3"),
    *("gemma2", "gemma3_text", "phi3", "bert", "roberta", "t5", "vit", "gpt_neo", "gptj", "opt", "bloom", "falcon", "mpt", "gpt_bigcode", "phi"),
    *("stablelm", "starcoder2", "mixtral", "olmo", "olmoe", "gemma", "qwen2_moe", "ministral3", "arcee", "nemotron", "exaone4", "glm", "glm4", "cohere"),
]
IDS = [5, 17, 3, 22, 9, 14, 1, 20, 7]
DECODER = [0, 7, 5, 9]
#: Where TransformerLens calls a place otherwise: the end of a name here, and there.
BERT = {
    # In TransformerLens, the names of the residual stream denote the sum after its norm.
    "hook_embed": "embed.hook_out",
    "hook_attn_out": "attn.o.hook_out",
    "hook_resid_mid": "ln1.hook_in",
    "hook_mlp_in": "ln1.hook_in",
    "hook_resid_post": "ln2.hook_in",
    "hook_normalized_resid_post": "ln2.hook_out",
}
RENAMED = {
    "bert": BERT,
    "roberta": BERT,
    "vit": {"hook_mlp_in": "ln2.hook_in"},
    "t5": {
        "encoder_final_ln.": "encoder_ln_final.",
        "decoder_final_ln.": "decoder_ln_final.",
        "encoder.": "encoder_blocks.",
        "decoder.": "decoder_blocks.",
        "hook_resid_mid_cross": "hook_resid_mid2",
        "hook_mlp_in": "{norm}.hook_in",
    },
}
#: What TransformerLens 4.3 has under a name is something else.
OTHERWISE = {
    **dict.fromkeys(("gpt_neo", "gptj", "opt"), ("hook_attn_scores",)),  # the weights after softmax
    "olmo": (".hook_q", ".hook_k", ".hook_v"),  # before they are clipped
    "mpt": ("hook_attn_scores",),  # ALiBi counts from the first key, not from the query: the rows differ by a constant
    # The same; the embeddings have their norm, and the inputs of heads theirs.
    "bloom": ("hook_attn_scores", "hook_embed", "hook_q_input", "hook_k_input", "hook_v_input"),
    "bert": ("hook_attn_scores",),  # the weights after softmax
    "roberta": ("hook_attn_scores",),
    "vit": ("hook_attn_scores", "hook_embed"),  # the embeddings have the positions
    "t5": ("hook_scale", "hook_normalized"),  # of a layer norm, whose mean T5's norm does not take out: times γ they are not its hook_out
}


def their_name(family: str, name: str) -> str:
    for ours, theirs in RENAMED.get(family, {}).items():
        stack = name.split(".")[0]
        theirs = theirs.format(norm="ln3" if stack.startswith("decoder") else "ln2")
        if ours.endswith(".") and name.startswith(ours):
            name = theirs + name.removeprefix(ours)
        elif not ours.endswith(".") and name.endswith(f".{ours}") or name == ours:
            name = name.removesuffix(ours) + theirs
            if RENAMED[family] is BERT:
                break
    return name.replace(".attn.", ".self_attn.") if name.startswith("decoder_blocks") else name


@pytest.fixture(scope="module")
def both(request, tmp_path_factory):
    """A model with random norms, in both libraries."""
    family = request.param
    folder = tmp_path_factory.mktemp(family)
    golden = GOLDEN / f"tiny-{family}"
    if not golden.exists():
        pytest.skip(f"NOT CHECKED: {golden} is not there")
    masked = "AutoModelForMaskedLM"
    kinds = {"bert": masked, "roberta": masked, "t5": "AutoModelForSeq2SeqLM", "vit": "AutoModelForImageClassification"}
    kind = getattr(transformers, kinds.get(family, "AutoModelForCausalLM"))
    theirs = kind.from_pretrained(golden, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    generator = torch.Generator().manual_seed(7)
    changed = 0
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            if "norm" in name.lower() or ".ln_" in name:
                weight.add_(0.5 * torch.randn(weight.shape, generator=generator))
                changed += 1
    assert changed or family == "olmo"  # its norms have no weights
    theirs.save_pretrained(folder)
    tokenizer = None
    if family != "vit":
        import tokenizers

        vocabulary = {str(i): i for i in range(theirs.config.vocab_size)}
        special = {"unk_token": "0", "bos_token": "1", "eos_token": "2", "pad_token": "3", "cls_token": "4", "sep_token": "6", "mask_token": "8"}
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="0"))
        words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    lens = bridge.TransformerBridge.boot_transformers(str(folder), hf_model=theirs, tokenizer=tokenizer, device="cpu", dtype=torch.float32)
    return family, regard.Model(folder), lens


@pytest.mark.parametrize("both", FAMILIES, indirect=True)
def test_places_are_those_of_transformer_lens(both):
    family, ours, theirs = both
    for name in ("set_use_attn_result", "set_use_split_qkv_input", "set_use_hook_mlp_in"):
        try:
            getattr(theirs, name)(True)
        except (AttributeError, NotImplementedError, RuntimeError, ValueError) as e:
            print(f"{family}: {name}: {e}")
    kwargs = {"decoder_input": torch.tensor([DECODER])} if family == "t5" else {}
    given = np.array(IDS) if family != "vit" else np.random.default_rng(0).standard_normal((3, 12, 12), np.float32)
    with torch.no_grad():
        their_logits, their_cache = theirs.run_with_cache(torch.tensor(given[None]), **kwargs)
    reading = {"decoder": DECODER} if family == "t5" else {}
    logits, cache = ours.run_with_cache(given, lambda name: True, **reading)
    compared, differ = [], []
    for name, array in cache.items():
        theirs_name = their_name(family, name)
        if theirs_name not in their_cache.keys() or name.endswith(OTHERWISE.get(family, ())):
            continue
        expected = their_cache[theirs_name]
        if not hasattr(expected, "numpy"):
            continue
        expected = expected.detach().numpy()
        expected = expected[0] if expected.shape[0] == 1 and expected.ndim == array.ndim + 1 else expected
        if name.endswith("_normed") and expected.shape == array.swapaxes(0, 1).shape:
            expected = expected.swapaxes(0, 1)  # heads before tokens, unlike its hook_q
        expected = expected.reshape(array.shape) if expected.size == array.size else expected
        if expected.shape != array.shape:
            differ.append(f"{name}: {array.shape} is not {expected.shape}")
            continue
        compared.append(name)
        hidden = ~np.isfinite(array) | (expected < -1e30)
        error = np.abs(np.where(hidden, 0, array) - np.where(hidden, 0, expected)).max()
        if error > 1e-4 * max(1, np.abs(np.where(hidden, 0, expected)).max()):
            differ.append(f"{name}: off by {error}")
    their_logits = getattr(their_logits, "logits", their_logits)
    np.testing.assert_allclose(logits, their_logits[0].detach().numpy(), rtol=0, atol=1e-4 * max(1, np.abs(logits).max()))
    missing = sorted({".".join(part for part in name.split(".") if not part.isdigit()) for name in cache if name not in compared})
    print(f"{family}: {len(compared)} of {len(cache)} places compared; not there: {missing}")
    assert not differ, differ
    assert len(compared) >= 0.55 * len(cache), missing
