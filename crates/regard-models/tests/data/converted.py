"""Writes tiny models as llama.cpp's converter writes them, with the numbers of transformers, for tests/models/gguf.rs.

    pip install torch transformers gguf sentencepiece
    python converted.py LLAMA.CPP [NAME ...]

LLAMA.CPP is a folder with llama.cpp's convert_hf_to_gguf.py. Each model has random weights, matrices as numbers of 16 bits, which
the converter stores as F16, or as the numbers of Q8_0 or MXFP4 (`QUANTIZED`), which change no more when they are stored. NAME.gguf is what it writes, without a vocabulary but for BERT's and those of `PIECES`; NAME.expected.safetensors has what transformers
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
from make import quantize, to_mxfp4
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
    "t5-gated": ("T5ForConditionalGeneration", T5 | dict(feed_forward_proj="gated-gelu", scale_decoder_outputs=False), {}),
    "qwen": ("Qwen2ForCausalLM", WIDE | dict(intermediate_size=20, num_hidden_layers=2, num_key_value_heads=4, rope_parameters=PLAIN, rms_norm_eps=1e-5), dict(
        architectures=["QWenLMHeadModel"], model_type="qwen", intermediate_size=40, layer_norm_epsilon=1e-5, rotary_emb_base=300.0)),
    "t5encoder": ("T5EncoderModel", T5, {}),
    "xlm-roberta": ("XLMRobertaModel", ENCODER | dict(vocab_size=65, pad_token_id=0, eos_token_id=2), {}),
    "bert-classes": ("BertForSequenceClassification", ENCODER | LABELS, {}),
    "roberta-classes": ("RobertaForSequenceClassification", ENCODER | LABELS | dict(pad_token_id=0), {}),
    "distilbert-classes": ("DistilBertForSequenceClassification", DISTILBERT | LABELS, {}),
    "modern-bert-classes": ("ModernBertForSequenceClassification", ENCODER | LABELS | dict(
        num_hidden_layers=2, local_attention=4, classifier_pooling="mean", norm_eps=1e-2), dict(global_attn_every_n_layers=3)),
}

# Models of matrices in Q8_0, whose rows have a multiple of 32 numbers; gpt-oss has its experts in MXFP4.
GROUPED32 = GROUPED | dict(intermediate_size=32)
EXPERTS32 = GROUPED32 | dict(num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2)
ONE = GROUPED32 | dict(num_attention_heads=2, num_key_value_heads=1)  # heads of 16 features
PHI3 = ONE | dict(sliding_window=5, rms_norm_eps=1e-5)
LONG = dict(rope_type="longrope", rope_theta=1000.0, original_max_position_embeddings=8,
            **{f"{length}_factor": [first + 0.3 * i for i in range(8)] for length, first in (("short", 1.0), ("long", 1.7))})
NEOX = ONE | dict(hidden_act="gelu", rope_parameters=HALF)  # the converter does not write another base
FEW = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0)
QUANTIZED = {
    "qwen3": ("Qwen3ForCausalLM", ONE | dict(head_dim=32, tie_word_embeddings=True, rope_parameters=PLAIN), {}),
    "qwen3-yarn": ("Qwen3ForCausalLM", ONE | dict(
        head_dim=32, tie_word_embeddings=True, rope_parameters=FEW | dict(original_max_position_embeddings=16)), {}),
    # llama.cpp scales gemma2's scores by the head size and ignores query_pre_attn_scalar, except for the model of 27 billion.
    "gemma2": ("Gemma2ForCausalLM", ONE | dict(
        num_hidden_layers=2, head_dim=32, query_pre_attn_scalar=32, sliding_window=3, attn_logit_softcapping=4.0, final_logit_softcapping=6.0), {}),
    "qwen3moe": ("Qwen3MoeForCausalLM", EXPERTS32 | dict(
        moe_intermediate_size=64, norm_topk_prob=True, mlp_only_layers=[], rope_parameters=PLAIN), {}),
    "gpt-oss": ("GptOssForCausalLM", EXPERTS32 | dict(
        head_dim=16, sliding_window=3, rope_parameters=FEW | dict(original_max_position_embeddings=16, truncate=False)), dict(
        quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"]))),
    "phi3": ("Phi3ForCausalLM", PHI3 | dict(original_max_position_embeddings=64, rope_parameters=PLAIN), {}),
    "phi3-longrope": ("Phi3ForCausalLM", PHI3 | dict(original_max_position_embeddings=8, rope_parameters=LONG), {}),
    # llama.cpp's pattern of Gemma 3 has every 6th layer see all tokens.
    "gemma3": ("Gemma3ForCausalLM", GROUPED32 | dict(
        num_hidden_layers=6, head_dim=8, query_pre_attn_scalar=8, sliding_window=3, final_logit_softcapping=6.0,
        rope_parameters={FULL: dict(rope_type="linear", rope_theta=1000.0, factor=8.0), SLIDING: dict(PLAIN, rope_theta=50.0)}), {}),
    "smollm3": ("SmolLM3ForCausalLM", GROUPED32 | dict(num_hidden_layers=4, rope_parameters=PLAIN, attention_bias=True), {}),
    "olmo2": ("Olmo2ForCausalLM", GROUPED32 | dict(rope_parameters=PLAIN), {}),
    "olmo3": ("Olmo3ForCausalLM", GROUPED32 | dict(num_hidden_layers=2, layer_types=[SLIDING, FULL], sliding_window=4, rope_parameters={
        SLIDING: PLAIN | dict(rope_theta=1000.0), FULL: FEW | dict(original_max_position_embeddings=8)}), {}),
    "granite": ("GraniteForCausalLM", GROUPED32 | dict(
        rope_parameters=PLAIN, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, embedding_multiplier=3.0, attention_multiplier=0.4,
        residual_multiplier=0.6, logits_scaling=2.5), {}),
    "gptneox": ("GPTNeoXForCausalLM", NEOX, {}),
    "gptneox-serial": ("GPTNeoXForCausalLM", NEOX | dict(use_parallel_residual=False), {}),
}
MODELS |= QUANTIZED

POOLED = {"roberta": "cls_token", "nomic-bert": "mean_tokens"}


def in_q8_0(matrix):
    """The numbers of Q8_0 that are nearest to those of a matrix."""
    kind = gguf.GGMLQuantizationType.Q8_0
    return torch.tensor(gguf.quants.dequantize(gguf.quants.quantize(matrix.numpy(), kind), kind))


def randomized(model, seed, quantized):
    """All numbers are random: norms and biases too, so that a forgotten one shows."""
    torch.manual_seed(seed)
    for name, parameter in model.named_parameters():
        drawn = 0.4 * torch.randn_like(parameter)
        if parameter.dim() == 1:
            parameter.data = drawn + 0.5
        elif not quantized:
            parameter.data = drawn.half().float()
        elif parameter.dim() == 3 and "GptOss" in type(model).__name__:
            parameter.data = to_mxfp4(drawn)[2]
        else:
            parameter.data = in_q8_0(drawn)
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


def convert(folder, file, kind):
    """Runs the converter, without a vocabulary if there is no tokenizer."""
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    settings = ModelBase.load_hparams(folder, False)
    if settings["model_type"] == "gpt_neox":  # transformers 5 leaves the key out, without which the converter ends
        settings["rotary_pct"] = settings["rope_parameters"]["partial_rotary_factor"]
    made = get_model_class(get_model_architecture(settings, ModelType.TEXT), mmproj=False)
    made.get_vocab_base_pre = lambda self, tokenizer: "jina-v2-en"  # known by the vocabulary's hash otherwise
    if not (folder / "tokenizer_config.json").exists():
        made.set_vocab = lambda self: None
    made._is_tokenizer_xlmroberta = lambda self: False
    with torch.inference_mode():
        made(folder, kind, file, eager=True, hparams=settings).write()


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
    model = randomized(model, seed, name in QUANTIZED)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model.save_pretrained(folder)
        settings = json.loads((folder / "config.json").read_text()) | more
        if name == "qwen":  # without the keys of Qwen 2
            settings = {key: value for key, value in settings.items() if key not in ("rms_norm_eps", "rope_parameters")}
            as_first_qwen(folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(settings))
        (folder / "generation_config.json").unlink(missing_ok=True)
        if name in POOLED:  # as sentence-transformers writes it
            (folder / "1_Pooling").mkdir()
            (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{POOLED[name]}": True}))
            (folder / "modules.json").write_text(json.dumps([dict(path="1_Pooling", type="sentence_transformers.models.Pooling")]))
        if name == "bert":
            shutil.copy(GOLDEN / "tiny-bert/tokenizer.json", folder)
            (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
        if name == "gemma3":  # the converter counts its tokens
            (folder / "tokenizer.json").write_text(json.dumps(dict(added_tokens=[0] * config.vocab_size, model=dict(vocab={}))))
        if name in PIECES:
            path = FOLDER / "pieces.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            known[name] = pieces(folder, name)
            path.write_text(json.dumps(known, ensure_ascii=False) + "\n")
        if name == "gpt-oss":
            quantize(folder)
        kind = gguf.LlamaFileType.MOSTLY_Q8_0 if name in QUANTIZED else gguf.LlamaFileType.MOSTLY_F16
        convert(folder, FOLDER / f"{name}.gguf", kind)
    model = model.double()
    expected = {f"long/{k}": v for k, v in outputs(model, IDS, POOLED.get(name)).items()}
    expected |= {f"short/{k}": v for k, v in outputs(model, IDS[:, :6], POOLED.get(name)).items()}
    save_file(expected, FOLDER / f"{name}.expected.safetensors")


logging.disable(logging.INFO)
llama = Path(sys.argv[1])
sys.path[:0] = [str(llama), str(llama / "gguf-py")]
import gguf  # of that folder

for seed, name in enumerate(MODELS):
    if name in sys.argv[2:] or not sys.argv[2:]:
        write(seed, name)
        print(name, (FOLDER / f"{name}.gguf").stat().st_size, flush=True)
