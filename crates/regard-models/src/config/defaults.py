"""Writes defaults.json: the default of transformers' config classes for each key that config.json may leave out.

    pip install torch transformers
    python defaults.py

A row is a key, with the default of each family that has it; null is Python's None. `attribute_map` has a family's other names of
keys, and `keys` lists every key that a config.json of these families may have.
"""

import json
from pathlib import Path

from transformers import CONFIG_MAPPING

EVERY = "pad_token_id eos_token_id"
DECODER = f"""vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
max_position_embeddings original_max_position_embeddings tie_word_embeddings hidden_act hidden_activation rms_norm_eps
attention_bias mlp_bias sliding_window use_sliding_window max_window_layers layer_types query_pre_attn_scalar
attn_logit_softcapping final_logit_softcapping no_rope_layers no_rope_layer_interval embedding_multiplier attention_multiplier
residual_multiplier logits_scaling num_experts num_local_experts num_experts_per_tok moe_intermediate_size norm_topk_prob
decoder_sparse_step mlp_only_layers swiglu_alpha swiglu_limit {EVERY}"""
BERT = f"""vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads max_position_embeddings type_vocab_size
tie_word_embeddings hidden_act layer_norm_eps is_decoder {EVERY}"""
KEYS = {
    "bert": BERT,
    "roberta": BERT,
    "distilbert": f"vocab_size dim hidden_dim n_layers n_heads max_position_embeddings tie_word_embeddings activation {EVERY}",
    "gpt2": f"""vocab_size n_embd n_inner n_layer n_head n_positions tie_word_embeddings activation_function layer_norm_epsilon
        scale_attn_weights scale_attn_by_inverse_layer_idx {EVERY}""",
    "gpt_neox": f"""vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads max_position_embeddings
        tie_word_embeddings hidden_act layer_norm_eps attention_bias use_parallel_residual {EVERY}""",
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma2", "phi3", "smollm3", "olmo2", "olmo3", "granite", "gemma3_text", "qwen3_moe", "gpt_oss"), DECODER),
    "t5": f"""vocab_size d_model d_kv d_ff num_layers num_decoder_layers num_heads feed_forward_proj layer_norm_epsilon
        relative_attention_num_buckets relative_attention_max_distance {EVERY}""",
    "vit": """hidden_size intermediate_size num_hidden_layers num_attention_heads image_size patch_size num_channels hidden_act
        layer_norm_eps qkv_bias""",
    "modernbert": f"""vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads max_position_embeddings norm_eps
        hidden_activation attention_bias mlp_bias local_attention layer_types classifier_activation classifier_pooling
        tie_word_embeddings {EVERY}""",
    "whisper": f"""vocab_size d_model encoder_layers encoder_attention_heads encoder_ffn_dim decoder_layers decoder_attention_heads
        decoder_ffn_dim num_mel_bins max_source_positions max_target_positions activation_function decoder_start_token_id
        begin_suppress_tokens tie_word_embeddings {EVERY}""",
}

KEYS |= dict.fromkeys(
    ("gpt_neo", "gptj", "gpt_bigcode", "opt", "bloom", "falcon", "mpt", "phi", "stablelm", "starcoder2", "mixtral", "olmo", "olmoe", "gemma",
     "qwen2_moe", "phimoe", "ministral", "ministral3", "arcee", "nemotron", "helium", "exaone4", "glm", "glm4", "cohere", "cohere2"),
    DECODER + """ num_layers num_heads n_embd n_layer n_head n_inner n_positions d_model n_heads n_layers max_seq_len
    ffn_dim ffn_hidden_size layer_norm_eps layer_norm_epsilon norm_epsilon activation activation_function bias use_bias enable_bias
    use_qkv_bias qk_layernorm clip_qkv window_size attention_types rotary_dim scale_attn_weights multi_query num_kv_heads parallel_attn
    new_decoder_architecture alibi use_parallel_residual word_embed_proj_dim do_layer_norm_before attn_config
    apply_residual_connection_post_layernorm norm_eps qkv_bias shared_expert_intermediate_size router_jitter_noise logit_scale use_qk_norm
    sliding_window_pattern""")
KEYS |= dict.fromkeys(("xlm-roberta", "camembert", "electra", "albert", "mpnet", "nomic_bert", "deberta-v2"), BERT + """ embedding_size num_hidden_groups
    inner_group_num relative_attention_num_buckets relative_attention max_relative_positions position_biased_input pos_att_type
    pooler_hidden_act""")
KEYS["eurobert"] = DECODER
KEYS |= dict.fromkeys(("bart", "mbart", "marian", "pegasus"), KEYS["whisper"] + " max_position_embeddings scale_embedding decoder_vocab_size")
KEYS["mt5"] = KEYS["t5"]
IMAGES = KEYS["vit"] + " pooler_act"
KEYS |= {"vit": IMAGES, "deit": IMAGES, "clip_vision_model": IMAGES, "siglip_vision_model": IMAGES + " vision_use_head"}
KEYS |= dict.fromkeys(("dinov2", "dinov2_with_registers"), IMAGES + " mlp_ratio use_swiglu_ffn num_register_tokens")
KEYS["dinov3_vit"] = IMAGES + """ num_register_tokens rope_theta query_bias key_bias value_bias proj_bias mlp_bias use_gated_mlp"""
KEYS |= dict.fromkeys(("clip_text_model", "siglip_text_model"), BERT)
# Other names of keys that a class reads without listing them.
NOMIC = {"n_embd": "hidden_size", "n_inner": "intermediate_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps"}
ALIASES = {"nomic_bert": NOMIC, "bloom": {"n_embed": "hidden_size"}, "falcon": {"n_embed": "hidden_size"}}

# Keys of transformers 4, and those that its classes for text wrote into every file.
OLD = """_name_or_path attn_implementation auto_map finetuning_task global_rope_theta layer_norm_epsilon local_rope_theta
n_ctx partial_rotary_factor position_embedding_type pretraining_tp quantization_config rope_local_base_freq rope_scaling rope_theta
rotary_emb_base rotary_pct sliding_window_pattern summary_type task_specific_params torch_dtype use_cache"""

table = {"attribute_map": {}}
known = set(OLD.split())
for family, keys in KEYS.items():
    config = CONFIG_MAPPING[family]
    known |= config().to_dict().keys() | config.attribute_map.keys()
    if others := config.attribute_map | ALIASES.get(family, {}):
        table["attribute_map"][family] = others
    for key in keys.split():
        if key in config.__dataclass_fields__:
            table.setdefault(key, {})[family] = config.__dataclass_fields__[key].default
        elif not isinstance(vars(config).get(key, property()), property):  # a default that is no field
            table.setdefault(key, {})[family] = vars(config)[key]
# The first Qwen, whose class is in its repositories. A text is long beyond `seq_length`.
QWEN = dict(vocab_size=151936, hidden_size=4096, intermediate_size=22016, num_hidden_layers=32, num_attention_heads=32, kv_channels=128,
    max_position_embeddings=8192, layer_norm_epsilon=1e-6, tie_word_embeddings=False, no_bias=True, use_dynamic_ntk=True, use_logn_attn=True)
for key, default in QWEN.items():
    table.setdefault(key, {})["qwen"] = default
table["attribute_map"]["qwen"] = {"seq_length": "max_position_embeddings"}
known |= QWEN.keys() | set("""attn_dropout_prob bf16 emb_dropout_prob fp16 fp32 rotary_emb_base rotary_pct seq_length softmax_in_fp32
    tokenizer_type use_cache_kernel use_cache_quantization use_flash_attn""".split())
table["keys"] = sorted(known)
rows = (f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in sorted(table.items()))
Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(rows) + "\n}\n")
