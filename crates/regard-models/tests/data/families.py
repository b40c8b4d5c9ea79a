"""Writes families.json: settings that few files have, with the numbers of transformers.

    pip install torch transformers
    python families.py

Each case is a config.json, the names and shapes of the tensors in the file, an input, and the logits of transformers in f64, or the vector of a base model. The
tensors' numbers are `numbers(name, shape)`, which tests/families.rs computes too. `says` is a part of what is said of a model that
is refused; `logits` are null where the head is not computed.

forms.json has the config.json of each golden model as transformers 5 writes it.
"""

import json
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig

torch.set_default_dtype(torch.float32)
transformers.logging.set_verbosity_error()
IDS = [3, 7, 1, 9, 4, 2]


def numbers(name, shape):
    """Numbers with 16 bits after the point between -1/2 and 1/2, and about 1/2 in vectors."""
    count = 1
    for size in shape:
        count *= size
    seed = sum((i + 1) * byte for i, byte in enumerate(name.encode())) % 65536
    drawn = [((i * 40503 + seed * 2654435 + i * i * 9973) >> 4) % 65536 / 65536 for i in range(count)]
    offset = 0.0 if len(shape) == 1 else -0.5
    return torch.tensor([x + offset for x in drawn]).reshape(shape)


SMALL = dict(vocab_size=11, hidden_size=8, intermediate_size=6, num_hidden_layers=1, num_attention_heads=2)
ONE_HEAD = SMALL | {"num_attention_heads": 1}
GROUPED = SMALL | {"num_key_value_heads": 1}
TWO = {"num_hidden_layers": 2}
EXPERTS = GROUPED | {"head_dim": 4, "num_local_experts": 3, "num_experts_per_tok": 2}
QWEN3 = EXPERTS | {"moe_intermediate_size": 5}
PHI3 = SMALL | {"pad_token_id": None}  # by default it is a token of a larger vocabulary
GPT2 = dict(vocab_size=11, n_embd=8, n_layer=1, n_head=2, n_positions=8)
BERT = SMALL | {"max_position_embeddings": 12}
DISTIL = dict(vocab_size=11, dim=8, hidden_dim=6, n_layers=1, n_heads=2, max_position_embeddings=8)
T5 = dict(vocab_size=11, d_model=8, d_kv=4, d_ff=6, num_layers=1, num_heads=2)
MODERN = SMALL | dict(num_hidden_layers=3, num_attention_heads=2, pad_token_id=0, local_attention=2)
VIT = dict(hidden_size=8, intermediate_size=6, num_hidden_layers=1, num_attention_heads=2, image_size=4, patch_size=2)
FOUR = {"num_hidden_layers": 4}
GEMMA3 = GROUPED | TWO | {"head_dim": 4, "sliding_window": 3, "sliding_window_pattern": 2}
SMOL = GROUPED | FOUR | {"pad_token_id": None}
NEOX = ONE_HEAD | {"hidden_act": "gelu"}
LONG = {"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.5]}
LINEAR = {"rope_type": "linear", "factor": 2.0}
HEADS = {"id2label": {"0": "no", "1": "maybe", "2": "yes"}}
EMBEDDINGS = "model.embed_tokens.weight"

CASES = [
    # Keys that a file leaves out have the default of the family's class.
    ("defaults", "LlamaForCausalLM", SMALL),
    ("defaults", "MistralForCausalLM", GROUPED | {"num_attention_heads": 2}),
    ("defaults", "Qwen2ForCausalLM", GROUPED),
    ("defaults", "Qwen3ForCausalLM", GROUPED | {"head_dim": 4}),
    ("defaults", "Gemma2ForCausalLM", GROUPED | TWO | {"head_dim": 4}),
    ("defaults", "Phi3ForCausalLM", PHI3),
    ("defaults", "Gemma3ForCausalLM", GROUPED | {"num_hidden_layers": 6, "head_dim": 4}),
    ("defaults", "SmolLM3ForCausalLM", SMALL | FOUR | {"num_attention_heads": 4, "pad_token_id": None}),
    ("defaults", "Olmo2ForCausalLM", SMALL),
    ("defaults", "Olmo3ForCausalLM", SMALL | FOUR),
    ("defaults", "GraniteForCausalLM", SMALL),
    # Gemma 3: both bases; caps that its class has and those that it does not read; settings of one kind of layers for all.
    ("old keys", "Gemma3ForCausalLM", GEMMA3 | {"rope_theta": 90.0, "rope_local_base_freq": 20.0, "rope_scaling": LINEAR}),
    ("one kind for all", "Gemma3ForCausalLM", GEMMA3 | {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
    ("one kind alone", "Gemma3ForCausalLM", GEMMA3 | {"rope_local_base_freq": 7.0, "rope_parameters": {"full_attention": LINEAR | {"rope_theta": 60.0}}}),
    ("caps", "Gemma3ForCausalLM", GEMMA3 | {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 0.7}),
    ("both directions", "Gemma3ForCausalLM", GEMMA3 | {"use_bidirectional_attention": True, "sliding_window": 2}),
    ("biases", "Gemma3ForCausalLM", GEMMA3 | {"attention_bias": True, "query_pre_attn_scalar": 9}),
    # SmolLM 3: layers without positions, by a list or a number; windows in those alone, or as layer_types say.
    ("interval", "SmolLM3ForCausalLM", SMOL | {"no_rope_layer_interval": 3, "use_sliding_window": True, "sliding_window": 2}),
    ("a longer list", "SmolLM3ForCausalLM", SMOL | TWO | {"no_rope_layers": [0, 1, 0, 1], "num_key_value_heads": None}),
    ("layer types", "SmolLM3ForCausalLM", SMOL | TWO | {"sliding_window": 2, "layer_types": ["sliding_attention", "full_attention"]}),
    ("biases", "SmolLM3ForCausalLM", SMOL | {"attention_bias": True, "mlp_bias": True}),
    # OLMo: grouped queries, whose norms have different lengths; in transformers 4's form the full layers alone have a base.
    ("grouped", "Olmo2ForCausalLM", GROUPED | {"attention_bias": True}),
    ("old keys", "Olmo3ForCausalLM", GROUPED | FOUR | {"rope_theta": 50.0, "sliding_window": 3,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4}, "max_position_embeddings": 16}),
    ("new type", "Olmo3ForCausalLM", GROUPED | FOUR | {"rope_theta": 50.0, "sliding_window": 3,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4}, "max_position_embeddings": 16}),
    ("one base", "Olmo3ForCausalLM", GROUPED | TWO | {"sliding_window": 3, "layer_types": ["full_attention"] * 2, "rope_parameters": {
        "full_attention": {"rope_type": "llama3", "rope_theta": 70.0, "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}}}),
    ("multipliers", "GraniteForCausalLM", GROUPED | TWO | {"attention_multiplier": 0.2, "residual_multiplier": 0.5,
        "embedding_multiplier": 2.0, "logits_scaling": 4, "attention_bias": True, "mlp_bias": True}),
    ("defaults", "GPTNeoXForCausalLM", SMALL),
    ("defaults", "GPT2LMHeadModel", {k: v for k, v in GPT2.items() if k != "n_positions"} | {"max_position_embeddings": 8}),
    ("other names", "GPT2LMHeadModel", dict(vocab_size=11, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, n_positions=8)),
    ("defaults", "BertForMaskedLM", BERT),
    ("defaults", "RobertaForMaskedLM", BERT),
    ("defaults", "DistilBertForMaskedLM", DISTIL | {"layer_norm_eps": 0.1, "is_decoder": True}),
    ("defaults", "T5ForConditionalGeneration", T5),
    ("defaults", "ViTForImageClassification", VIT),
    ("no caps", "Gemma2ForCausalLM", GROUPED | {"head_dim": 4, "attn_logit_softcapping": None, "final_logit_softcapping": None}),
    ("window of a family", "Qwen2ForCausalLM", GROUPED | TWO | {"use_sliding_window": True, "sliding_window": 2, "max_window_layers": 1}),
    # If rope_parameters are present too, only rope_scaling counts.
    ("both", "LlamaForCausalLM", SMALL | {"rope_scaling": LINEAR, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
    ("both, theta", "Qwen2ForCausalLM", GROUPED | {"rope_scaling": LINEAR, "rope_theta": 70.0, "rope_parameters": {"rope_theta": 50.0}}),
    ("empty", "LlamaForCausalLM", SMALL | {"rope_scaling": {}, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
    ("original outside", "LlamaForCausalLM", SMALL | {"rope_scaling": LONG | {"original_max_position_embeddings": 64}, "original_max_position_embeddings": 4}),
    ("llama3 without", "LlamaForCausalLM", SMALL | {"max_position_embeddings": 32, "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}}),
    ("yarn", "Phi3ForCausalLM", PHI3 | {"rope_scaling": LONG | {"type": "yarn"}, "original_max_position_embeddings": 4, "max_position_embeddings": 16}),
    ("yarn, less than a turn", "LlamaForCausalLM", SMALL | {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4, "truncate": False}}),
    ("longrope, long", "Phi3ForCausalLM", PHI3 | {"rope_scaling": LONG, "original_max_position_embeddings": 4, "max_position_embeddings": 16}),
    ("longrope, short", "Phi3ForCausalLM", PHI3 | {"rope_scaling": LONG, "original_max_position_embeddings": 6, "max_position_embeddings": 16}),
    ("partial", "Phi3ForCausalLM", PHI3 | {"partial_rotary_factor": 0.5}),
    ("partial, overlooked", "LlamaForCausalLM", SMALL | {"partial_rotary_factor": 0.5}),
    ("partial, overlooked", "Qwen3ForCausalLM", GROUPED | {"head_dim": 4, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 90.0}}),
    ("names of its own", "GPTNeoXForCausalLM", NEOX | {"rope_theta": 50.0, "partial_rotary_factor": 1.0}),
    ("names of its own", "GPTNeoXForCausalLM", NEOX | {"rotary_emb_base": 50.0, "rotary_pct": 0.5}),
    ("names of its own", "GPTNeoXForCausalLM", NEOX | {"rotary_emb_base": 50.0, "rope_parameters": {"rope_theta": 20.0, "partial_rotary_factor": 0.5}}),
    # All layers of these models slide, whatever layer_types says.
    ("layer types", "MistralForCausalLM", GROUPED | TWO | {"sliding_window": 2, "layer_types": ["full_attention"] * 2}),
    ("layer types", "Phi3ForCausalLM", PHI3 | TWO | {"sliding_window": 2, "layer_types": ["full_attention"] * 2}),
    ("layer types", "Gemma2ForCausalLM", GROUPED | TWO | {"head_dim": 4, "sliding_window": 2, "layer_types": ["full_attention", "sliding_attention"]}),
    # Experts.
    ("defaults", "Qwen3MoeForCausalLM", QWEN3),
    ("one tensor for all experts", "Qwen3MoeForCausalLM", QWEN3, {"in_memory": True}),
    ("other names, some dense", "Qwen3MoeForCausalLM", {k: v for k, v in QWEN3.items() if k != "num_local_experts"} | TWO | {"num_experts": 4, "decoder_sparse_step": 2, "norm_topk_prob": True, "use_sliding_window": True, "sliding_window": 2}),
    ("no experts", "Qwen3MoeForCausalLM", QWEN3 | {"num_local_experts": 0}),
    ("defaults", "GptOssForCausalLM", EXPERTS | TWO),
    ("settings", "GptOssForCausalLM", EXPERTS | TWO | {"attention_bias": False, "swiglu_alpha": 1.3, "swiglu_limit": 0.2, "sliding_window": 2, "layer_types": ["full_attention", "sliding_attention"], "rope_scaling": LINEAR, "tie_word_embeddings": True}),
    # Classes.
    ("classes", "BertForSequenceClassification", BERT | HEADS),
    ("classes", "RobertaForSequenceClassification", BERT | HEADS),
    ("classes", "DistilBertForSequenceClassification", DISTIL | HEADS),
    ("classes of a decoder", "BertForSequenceClassification", BERT | HEADS | {"is_decoder": True}),
    ("padding", "LlamaForSequenceClassification", SMALL | HEADS | {"pad_token_id": 2}),
    ("padding", "GPTNeoXForSequenceClassification", NEOX | HEADS | {"pad_token_id": 2}),
    ("padding", "GPT2ForSequenceClassification", GPT2 | HEADS | {"pad_token_id": 2}),
    ("padding by default", "Gemma2ForSequenceClassification", GROUPED | HEADS | {"head_dim": 4}, {"ids": [3, 7, 1, 0, 0]}),
    ("padding by default", "Gemma3TextForSequenceClassification", GEMMA3 | HEADS, {"ids": [3, 7, 1, 0, 0]}),
    ("padding", "SmolLM3ForSequenceClassification", SMOL | HEADS | {"pad_token_id": 2}),
    ("padding", "Olmo2ForSequenceClassification", SMALL | HEADS | {"pad_token_id": 2}),
    ("padding", "Olmo3ForSequenceClassification", SMALL | HEADS | {"pad_token_id": 2}),
    ("nothing but padding", "Qwen2ForSequenceClassification", GROUPED | HEADS | {"pad_token_id": 5}, {"ids": [5, 5, 5]}),
    ("padding in a text", "RobertaForMaskedLM", BERT, {"ids": [3, 1, 7, 1, 9, 4]}),
    # Local and global attention, whose kinds older files do not name.
    ("defaults", "ModernBertForMaskedLM", MODERN),
    ("every second", "ModernBertForMaskedLM", MODERN | {"global_attn_every_n_layers": 2, "local_rope_theta": 50.0, "global_rope_theta": 20.0, "local_attention": 5}),
    ("biases", "ModernBertForMaskedLM", MODERN | {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True, "decoder_bias": False, "tie_word_embeddings": False, "classifier_activation": "silu"}),
    ("layer types", "ModernBertForSequenceClassification", MODERN | HEADS | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 30.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 9.0}}}),
    ("mean", "ModernBertForSequenceClassification", MODERN | HEADS | {"classifier_pooling": "mean"}),
    ("head", "ModernBertForTokenClassification", MODERN | HEADS),
    # The vector of a base model.
    *(("pooled", name, BERT) for name in ("BertModel", "RobertaModel", "XLMRobertaModel", "CamembertModel", "MPNetModel")),
    ("pooled", "AlbertModel", BERT | {"embedding_size": 4}),
    # Heads that are not computed.
    *(("head", name, base | HEADS) for name, base in {
        "SmolLM3ForTokenClassification": SMOL, "GPT2ForTokenClassification": GPT2, "GPT2ForQuestionAnswering": GPT2, "LlamaForTokenClassification": SMALL,
        "LlamaForQuestionAnswering": SMALL, "GPTNeoXForTokenClassification": NEOX, "BertForTokenClassification": BERT,
        "BertForNextSentencePrediction": BERT, "RobertaForMultipleChoice": BERT, "T5ForTokenClassification": T5,
    }.items()),
    # Activations.
    *(("activation", "GPT2LMHeadModel", GPT2 | {"activation_function": name})
      for name in ("quick_gelu", "tanh", "relu2", "gelu_accurate")),
    ("dense_act_fn", "T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "dense_act_fn": "relu"}),
    # The matrix that the head and the embeddings share.
    ("tied, head alone", "LlamaForCausalLM", SMALL | {"tie_word_embeddings": True}, {"without": EMBEDDINGS}),
    ("tied, head alone", "GPT2LMHeadModel", GPT2, {"without": "transformer.wte.weight"}),
    ("tied, both", "LlamaForCausalLM", SMALL | {"tie_word_embeddings": True}, {"with": ["lm_head.weight"]}),
    ("tied, both", "BertForMaskedLM", BERT, {"with": ["cls.predictions.decoder.weight"]}),
    ("not tied", "T5ForConditionalGeneration", T5 | {"tie_word_embeddings": False}, {"with": ["lm_head.weight"]}),
    ("not tied, no head", "T5ForConditionalGeneration", T5 | {"tie_word_embeddings": False}),
    # Biases that the model does not have are not read.
    ("biases", "LlamaForCausalLM", SMALL, {"with": [f"model.layers.0.self_attn.{x}_proj.bias" for x in "qo"] + ["model.layers.0.mlp.up_proj.bias"]}),
    ("biases", "LlamaForCausalLM", SMALL | {"attention_bias": True, "mlp_bias": True}),
    ("biases", "GPTNeoXForCausalLM", NEOX | {"attention_bias": False}, {"with": ["gpt_neox.layers.0.attention.dense.bias"]}),
    ("biases", "ViTForImageClassification", VIT | {"qkv_bias": False, "num_channels": 1}),
    ("heads", "ViTForImageClassification", VIT | {"head_dim": 2}),
]

# Settings that transformers refuses too, or for which its numbers mean nothing.
REFUSED = [
    ("LlamaForCausalLM", SMALL | {"is_causal": False}, "is_causal is false"),
    ("LlamaForCausalLM", SMALL | {"rope_scaling": LINEAR, "partial_rotary_factor": 0.5}, "turns 2 of 4 features"),
    ("LlamaForCausalLM", SMALL | {"rope_scaling": LONG | {"type": "su"}}, 'the rope_type "su" is not known'),
    ("LlamaForCausalLM", SMALL | {"rms_norm_eps": "1e-5"}, 'rms_norm_eps is "1e-5", which is no number'),
    ("LlamaForCausalLM", SMALL | {"rms_norm_eps": None}, "rms_norm_eps is null, which is no number"),
    ("LlamaForCausalLM", SMALL | {"tie_word_embeddings": 1}, "tie_word_embeddings is 1, which is no true or false"),
    ("LlamaForCausalLM", SMALL | {"hidden_act": "mish"}, 'hidden_act is "mish", which is not known'),
    ("Phi3ForCausalLM", PHI3 | {"rope_scaling": LINEAR}, 'the rope_type "linear" is none of phi3'),
    ("Qwen2ForCausalLM", GROUPED | {"layer_types": ["sliding_attention"]}, "there is no sliding_window"),
    ("Qwen2ForCausalLM", GROUPED | {"rope_parameters": {"full_attention": {"rope_theta": 10.0}}}, "by kinds of layers"),
    ("Gemma2ForCausalLM", GROUPED | {"head_dim": 4, "sliding_window": None}, "there is no sliding_window"),
    ("MistralForCausalLM", GROUPED | {"sliding_window": 0}, "sliding_window is 0"),
    ("Gemma3ForCausalLM", GEMMA3 | {"sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
    ("Gemma3ForCausalLM", GEMMA3 | {"layer_types": ["full_attention"]}, "layer_types has 1 entries for 2 layers"),
    ("Gemma3ForCausalLM", GEMMA3 | {"sliding_window": 0}, "sliding_window is 0"),
    ("Gemma3ForCausalLM", GEMMA3 | {"query_pre_attn_scalar": 0}, "a setting of the attention or of a norm is inf"),
    ("SmolLM3ForCausalLM", SMOL | {"no_rope_layers": [1]}, "no_rope_layers has 1 entries for 4 layers"),
    ("SmolLM3ForCausalLM", SMOL | {"no_rope_layers": ["yes"]}, "which is no list of 0 and 1"),
    ("SmolLM3ForCausalLM", SMOL | {"no_rope_layer_interval": 0}, "no_rope_layer_interval is 0"),
    ("Olmo3ForCausalLM", GROUPED | TWO | {"sliding_window": None}, "there is no sliding_window"),
    ("Olmo3ForCausalLM", GROUPED | {"rope_parameters": {"sliding_attention": {"rope_theta": -1.0}}}, "rope_theta is -1"),
    ("GraniteForCausalLM", GROUPED | {"logits_scaling": 0}, "logits_scaling is 0, which is no multiplier"),
    ("GraniteForCausalLM", GROUPED | {"residual_multiplier": "x"}, 'residual_multiplier is "x", which is no number'),
    ("Qwen3MoeForCausalLM", QWEN3 | {"num_experts_per_tok": 4}, "a token cannot take 4 of 3 experts"),
    ("Qwen3MoeForCausalLM", QWEN3 | {"num_experts_per_tok": 0}, "a token cannot take 0 of 3 experts"),
    ("Qwen3MoeForCausalLM", QWEN3 | {"decoder_sparse_step": 0}, "decoder_sparse_step is 0"),
    ("Qwen3MoeForCausalLM", QWEN3 | {"mlp_only_layers": ["first"]}, "which is no list of layers"),
    ("GptOssForCausalLM", EXPERTS | {"num_local_experts": 0}, "a token cannot take 2 of 0 experts"),
    ("T5ForConditionalGeneration", T5 | {"relative_attention_max_distance": 8}, "32 buckets do not reach beyond"),
]


def config_of(architecture, settings):
    # A copy: transformers writes into the objects that it reads.
    return json.loads(json.dumps(settings)) | {"model_type": getattr(transformers, architecture).config_class.model_type, "architectures": [architecture]}


def saved(model):
    """The names and shapes of the tensors in a file of the model, as save_pretrained writes them."""
    from safetensors import safe_open

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safe_open(f"{folder}/model.safetensors", "pt") as file:
            return {name: list(file.get_slice(name).get_shape()) for name in file.keys()}


def case(name, architecture, settings, more=None):
    from safetensors.torch import save_file

    more = more or {}
    config = config_of(architecture, settings)
    made = AutoConfig.for_model(**config_of(architecture, settings))
    made._attn_implementation = "eager"
    model = getattr(transformers, architecture)(made)
    shapes = {k: list(v.shape) for k, v in model.state_dict().items()} if more.get("in_memory") else saved(model)
    vocabulary = [made.vocab_size, made.hidden_size] if "vit" not in made.model_type else None
    for added in more.get("with", []):
        shapes[added] = vocabulary if added.endswith("weight") else [shapes[added.replace("bias", "weight")][0]]
    if without := more.get("without"):
        del shapes[without]
        shapes["lm_head.weight"] = vocabulary
    with tempfile.TemporaryDirectory() as folder:
        save_file({k: numbers(k, v) for k, v in shapes.items()}, f"{folder}/model.safetensors")
        (Path(folder) / "config.json").write_text(json.dumps(config))
        model = getattr(transformers, architecture).from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
        model.config._experts_implementation = "eager"
    model = model.double().eval()
    found = {"name": f"{name}: {architecture}", "config": config, "shapes": shapes}
    with torch.no_grad():
        if made.model_type == "vit":
            out = model(numbers("pixels", [1, made.num_channels, 4, 4]).double())
        else:
            found["ids"] = more.get("ids", IDS)
            inputs = {"input_ids": torch.tensor([found["ids"]])}
            if architecture == "RobertaForMultipleChoice":
                inputs["input_ids"] = inputs["input_ids"][None]
            if architecture == "T5ForConditionalGeneration":
                found["decoder"] = [0, 5, 2]
                inputs["decoder_input_ids"] = torch.tensor([found["decoder"]])
            elif made.model_type not in ("t5", "distilbert", "modernbert"):
                inputs["use_cache"] = False
            out = model(**inputs)
    output = None if name == "head" else out.pooler_output if name == "pooled" else out.logits
    found["logits"] = output if output is None else [float(f"{x:.7g}") for x in output.flatten().tolist()]
    return found


def refused(architecture, settings, says):
    shapes = saved(getattr(transformers, architecture)(AutoConfig.for_model(**config_of(architecture, {
        key: value for key, value in settings.items() if key in PHI3 | T5 | {"num_key_value_heads": 1} | QWEN3
    }))))
    return {"name": says, "config": config_of(architecture, settings), "shapes": shapes, "says": says}


cases = [case(*arguments) for arguments in CASES] + [refused(*arguments) for arguments in REFUSED]
lines = ",\n".join(json.dumps(found, separators=(",", ":")) for found in cases)
Path(__file__).with_suffix(".json").write_text(f"[\n{lines}\n]\n")

forms = {}
for folder in sorted((Path(__file__).parents[2] / "models").glob("tiny-*")):
    if folder.name == "tiny-qwen":
        continue  # transformers has no class of the first Qwen
    with tempfile.TemporaryDirectory() as written:
        AutoConfig.from_pretrained(folder).save_pretrained(written)
        forms[folder.name] = json.loads((Path(written) / "config.json").read_text())
lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(form, separators=(',', ':'))}" for name, form in forms.items())
Path(__file__).with_name("forms.json").write_text(f"{{\n{lines}\n}}\n")
