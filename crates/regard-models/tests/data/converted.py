"""Writes tiny models as llama.cpp's converter writes them, with the numbers of transformers, for tests/models/gguf.rs.

    pip install torch transformers gguf sentencepiece
    python converted.py LLAMA.CPP [NAME ...]

LLAMA.CPP is a folder with llama.cpp's convert_hf_to_gguf.py. Each model has random weights, matrices as numbers of 16 bits, which
the converter stores as F16. NAME.gguf is what it writes, without a vocabulary but for BERT's and those of `PIECES`; NAME.expected.safetensors has what transformers
gives in float64, and pieces.json the ids of AutoTokenizer for texts.
"""

import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

FOLDER = Path(__file__).parent
GOLDEN = FOLDER.parents[3] / "tests/golden/models"
sys.path.insert(0, str(GOLDEN))
from more import as_first_qwen

IDS = torch.tensor([[5, 17, 3, 22, 9, 14, 1, 20, 7, 11, 2, 19]])
SMALL = dict(vocab_size=24, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, max_position_embeddings=64,
             bos_token_id=0, eos_token_id=0, pad_token_id=None)
WIDE = SMALL | dict(intermediate_size=128)  # the converter writes four times the width
GROUPED = SMALL | dict(intermediate_size=20, num_key_value_heads=2)
EXPERTS = GROUPED | dict(num_experts=3, num_local_experts=3, num_experts_per_tok=2)
ENCODER = SMALL | dict(intermediate_size=20, max_position_embeddings=16, pad_token_id=23)
DISTILBERT = dict(vocab_size=24, dim=32, hidden_dim=20, n_layers=1, n_heads=4, max_position_embeddings=16, pad_token_id=23)
T5 = dict(vocab_size=24, d_model=32, d_kv=5, d_ff=20, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
          decoder_start_token_id=0, eos_token_id=0, pad_token_id=0)
LABELS = dict(id2label={"0": "no", "1": "perhaps", "2": "yes"})
GPT = dict(vocab_size=24, n_embd=32, n_layer=1, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0)
PLAIN = dict(rope_type="default", rope_theta=300.0)
HALF = dict(rope_type="default", rope_theta=10_000.0, partial_rotary_factor=0.5)
FULL, SLIDING = "full_attention", "sliding_attention"
YARN = dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=4, beta_fast=4.0, beta_slow=0.5,
            mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3)

# By name: the family, the class and the settings; and what config.json says for the converter alone.
MODELS = {
    "qwen": ("Qwen2ForCausalLM", WIDE | dict(intermediate_size=20, num_hidden_layers=2, num_key_value_heads=4, rope_parameters=PLAIN, rms_norm_eps=1e-5), dict(
        architectures=["QWenLMHeadModel"], model_type="qwen", intermediate_size=40, layer_norm_epsilon=1e-5, rotary_emb_base=300.0,
        rms_norm_eps=None, rope_parameters=None)),
    "bloom": ("BloomForCausalLM", dict(vocab_size=24, hidden_size=32, n_layer=1, n_head=4, bos_token_id=0, eos_token_id=0), {}),
    "starcoder": ("GPTBigCodeForCausalLM", GPT, {}),
    "starcoder2": ("Starcoder2ForCausalLM", GROUPED | dict(rope_parameters=PLAIN, sliding_window=None), {}),
    "falcon": ("FalconForCausalLM", WIDE | dict(
        new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=2, parallel_attn=True, alibi=False, bias=False), {}),
    "falcon-one": ("FalconForCausalLM", WIDE | dict(
        new_decoder_architecture=False, multi_query=True, num_kv_heads=1, parallel_attn=True, alibi=False, bias=False), {}),
    "mpt": ("MptForCausalLM", dict(
        vocab_size=24, d_model=32, n_layers=1, n_heads=4, expansion_ratio=4, max_seq_len=64, bos_token_id=0, eos_token_id=0,
        attn_config=dict(clip_qkv=1.5)), dict(architectures=["MPTForCausalLM"])),
    "phi2": ("PhiForCausalLM", WIDE | dict(rope_parameters=HALF), {}),
    "stablelm": ("StableLmForCausalLM", GROUPED | dict(rope_parameters=HALF, use_qkv_bias=True), {}),
    "stablelm-parallel": ("StableLmForCausalLM", GROUPED | dict(rope_parameters=HALF, use_parallel_residual=True), {}),
    "olmo": ("OlmoForCausalLM", GROUPED | dict(rope_parameters=PLAIN, clip_qkv=1.2), {}),
    "olmoe": ("OlmoeForCausalLM", EXPERTS | dict(rope_parameters=PLAIN, rms_norm_eps=1e-5), {}),
    "mixtral": ("MixtralForCausalLM", EXPERTS | dict(rope_parameters=PLAIN), {}),
    "qwen2moe": ("Qwen2MoeForCausalLM", EXPERTS | dict(
        rope_parameters=PLAIN, moe_intermediate_size=12, shared_expert_intermediate_size=16, num_hidden_layers=2), {}),
    "phimoe": ("PhimoeForCausalLM", EXPERTS | dict(rope_parameters=PLAIN, attention_bias=True, lm_head_bias=True),
               dict(architectures=["PhiMoEForCausalLM"], original_max_position_embeddings=64)),
    "gemma": ("GemmaForCausalLM", GROUPED | dict(head_dim=8, hidden_activation="gelu_pytorch_tanh"), {}),
    "arcee": ("ArceeForCausalLM", GROUPED | dict(rope_parameters=PLAIN), {}),
    "mistral3": ("Ministral3ForCausalLM", GROUPED | dict(head_dim=8, rope_parameters=YARN), {}),
    "nemotron": ("NemotronForCausalLM", GROUPED | dict(rope_parameters=HALF | dict(rope_theta=300.0)), {}),
    "exaone4": ("Exaone4ForCausalLM", GROUPED | dict(
        num_hidden_layers=3, rope_parameters=PLAIN, sliding_window=4, layer_types=[SLIDING, FULL, SLIDING]), {}),
    "glm": ("GlmForCausalLM", GROUPED | dict(head_dim=8, rope_parameters=HALF, attention_bias=True, rms_norm_eps=1e-5), {}),
    "glm4": ("Glm4ForCausalLM", GROUPED | dict(head_dim=8, rope_parameters=HALF, attention_bias=True), {}),
    "command-r": ("CohereForCausalLM", GROUPED | dict(rope_parameters=PLAIN, logit_scale=0.3), {}),
    "cohere2": ("Cohere2ForCausalLM", GROUPED | dict(
        num_hidden_layers=4, rope_parameters=PLAIN, logit_scale=0.3, sliding_window=4), dict(rotary_pct=1.0)),
    "bert": ("BertModel", ENCODER | dict(vocab_size=340, pad_token_id=0), {}),  # the tokenizer is that of the golden model tiny-bert
    "roberta": ("RobertaModel", ENCODER | dict(pad_token_id=0), {}),
    "distilbert": ("DistilBertModel", DISTILBERT, {}),
    "nomic-bert": ("NomicBertModel", ENCODER | dict(num_hidden_layers=2, rope_parameters=PLAIN), dict(
        n_positions=2048, activation_function="swiglu", causal=False, qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False,
        prenorm=False, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None)),
    "eurobert": ("EuroBertModel", GROUPED | dict(rope_parameters=PLAIN, mask_token_id=23), dict(classifier_pooling="mean")),
    "modern-bert": ("ModernBertModel", ENCODER | dict(num_hidden_layers=3, local_attention=4, rope_parameters={
        FULL: dict(PLAIN, rope_theta=900.0), SLIDING: dict(PLAIN, rope_theta=50.0)}), dict(global_attn_every_n_layers=3)),
    "t5": ("T5ForConditionalGeneration", T5 | dict(vocab_size=64, eos_token_id=1), {}),
    "t5encoder": ("T5EncoderModel", T5, {}),
    "xlm-roberta": ("XLMRobertaModel", ENCODER | dict(vocab_size=65, pad_token_id=0, eos_token_id=2), {}),
    "bert-classes": ("BertForSequenceClassification", ENCODER | LABELS, {}),
    "roberta-classes": ("RobertaForSequenceClassification", ENCODER | LABELS | dict(pad_token_id=0), {}),
    "distilbert-classes": ("DistilBertForSequenceClassification", DISTILBERT | LABELS, {}),
    "modern-bert-classes": ("ModernBertForSequenceClassification", ENCODER | LABELS | dict(
        num_hidden_layers=2, local_attention=4, classifier_pooling="mean", norm_eps=1e-2), dict(global_attn_every_n_layers=3)),
    "t5-gated": ("T5ForConditionalGeneration", T5 | dict(feed_forward_proj="gated-gelu", scale_decoder_outputs=False), {}),
}

POOLED = {"roberta": "cls_token", "nomic-bert": "mean_tokens"}


def randomized(model, seed):
    """All numbers are random: norms and biases too, so that a forgotten one shows."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        drawn = 0.4 * torch.randn_like(parameter)
        parameter.data = drawn + 0.5 if parameter.dim() == 1 else drawn.half().float()
    return model.eval()


# Tokenizers of SentencePiece's Unigram: the name of the file, and where it has its special tokens.
PIECES = {
    "t5": ("spiece.model", dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)),
    "xlm-roberta": ("sentencepiece.bpe.model", dict(unk_id=0, bos_id=1, eos_id=2)),
}
TEXTS = ["the Cat  sat on the mat", "Ｔｈｅ ｎａïｖｅ cat…", " tokens look\tat </s> other tokens 漢字 ", ""]


def pieces(folder, name):
    """Trains a tokenizer, and returns the ids of texts, and of two of them together."""
    import sentencepiece

    file, special = PIECES[name]
    (folder / "texts").write_text("\n".join(["the cat sat on the mat", "tokens look at other tokens and decide", "the naive cats", "Cats and dogs decide nothing"] * 20))
    # Letters of full width become others, as in the rules of the real ones, which are larger.
    rules = [f"{0xFEE0 + code:X}\t{code:X}" for code in range(0x41, 0x7B)] + ["2026\t2E 2E 2E"]
    (folder / "rules").write_text("\n".join(rules) + "\n")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "texts"), model_prefix=str(folder / "made"), vocab_size=60, normalization_rule_tsv=str(folder / "rules"),
        hard_vocab_limit=False, minloglevel=2, **special)
    (folder / "made.model").rename(folder / file)
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 0} if name == "t5" else {}))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return dict(texts=TEXTS, ids=[tokenizer(text).input_ids for text in TEXTS], pair=tokenizer(TEXTS[0], TEXTS[1]).input_ids)


def convert(folder, file):
    """Runs the converter, without a vocabulary if there is no tokenizer."""
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    from gguf import LlamaFileType

    settings = ModelBase.load_hparams(folder, False)
    made = get_model_class(get_model_architecture(settings, ModelType.TEXT), mmproj=False)
    if (folder / "tokenizer.json").exists():
        made.get_vocab_base_pre = lambda self, tokenizer: "jina-v2-en"  # known by the vocabulary's hash otherwise
    elif not (folder / "made.vocab").exists():
        made.set_vocab = lambda self: None
    made._is_tokenizer_xlmroberta = lambda self: False
    with torch.inference_mode():
        made(folder, LlamaFileType.MOSTLY_F16, file, eager=True).write()


def outputs(model, ids, pooled):
    """The logits, or the states of a model without a head, and the attentions. A decoder beside an encoder reads four tokens."""
    more = dict(decoder_input_ids=IDS[:, :4]) if hasattr(model, "decoder") else {}
    with torch.no_grad():
        out = model(ids, output_attentions=True, output_hidden_states=True, **more)
    found = {name: torch.cat(out[name]) for name in out if name.endswith("attentions") and out[name]}
    found |= {"logits": out.logits[0]} if "logits" in out else {"hidden_states": torch.cat(out.hidden_states)}
    if pooled:
        found["pooler_output"] = out.last_hidden_state[0].mean(0) if pooled == "mean_tokens" else out.last_hidden_state[0, 0]
    return {name: tensor.float().contiguous() for name, tensor in found.items()}


def write(seed, name):
    architecture, config, more = MODELS[name]
    made = getattr(transformers, architecture)
    config = made.config_class(**json.loads(json.dumps(config)))
    config._attn_implementation = config._experts_implementation = "eager"
    if name == "t5-gated":  # version 1.1, whose head alone has a matrix of its own
        config.tie_word_embeddings = False
    model = made(config)
    if hasattr(model, "decoder"):
        model.set_input_embeddings(model.shared)
    model = randomized(model, seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model.save_pretrained(folder)
        settings = json.loads((folder / "config.json").read_text()) | more
        settings = {key: value for key, value in settings.items() if value is not None or key not in more}
        (folder / "config.json").write_text(json.dumps(settings))
        (folder / "generation_config.json").unlink(missing_ok=True)
        if name == "qwen":
            as_first_qwen(folder / "model.safetensors")
        if name in POOLED:  # as sentence-transformers writes it
            (folder / "1_Pooling").mkdir()
            (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{POOLED[name]}": True}))
            (folder / "modules.json").write_text(json.dumps([dict(path="1_Pooling", type="sentence_transformers.models.Pooling")]))
        if name == "bert":
            shutil.copy(GOLDEN / "tiny-bert/tokenizer.json", folder)
            (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
        if name in PIECES:
            path = FOLDER / "pieces.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            known[name] = pieces(folder, name)
            path.write_text(json.dumps(known, ensure_ascii=False) + "\n")
        convert(folder, FOLDER / f"{name}.gguf")
    model = model.double()
    expected = {f"long/{k}": v for k, v in outputs(model, IDS, POOLED.get(name)).items()}
    expected |= {f"short/{k}": v for k, v in outputs(model, IDS[:, :6], POOLED.get(name)).items()}
    save_file(expected, FOLDER / f"{name}.expected.safetensors")


logging.disable(logging.INFO)
llama = Path(sys.argv[1])
sys.path[:0] = [str(llama), str(llama / "gguf-py")]
for seed, name in enumerate(MODELS):
    if name in sys.argv[2:] or not sys.argv[2:]:
        write(seed, name)
        print(name, (FOLDER / f"{name}.gguf").stat().st_size, flush=True)
