"""Writes tiny-modernbert: a masked language model with random weights, and what transformers gives for it in float64.

    pip install torch transformers
    python modernbert.py

The config is in the form of transformers 4, and the weights are bfloat16. The tokenizer is that of tiny-bert.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer, ModernBertForMaskedLM
from transformers.models.modernbert import modeling_modernbert

FOLDER = Path(__file__).parent / "tiny-modernbert"
TEXTS = ["the cat sat on the mat", "tokens look at other tokens and decide what to keep"]
CONFIG = dict(
    architectures=["ModernBertForMaskedLM"], model_type="modernbert", vocab_size=160, hidden_size=20, intermediate_size=14,
    num_hidden_layers=4, num_attention_heads=2, hidden_activation="gelu", max_position_embeddings=64, norm_eps=1e-5, norm_bias=False,
    attention_bias=False, mlp_bias=False, global_attn_every_n_layers=3, local_attention=6, global_rope_theta=900.0,
    local_rope_theta=40.0, decoder_bias=True, classifier_bias=False, classifier_activation="gelu", classifier_pooling="mean",
    tie_word_embeddings=True, pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3, torch_dtype="bfloat16",
)


def in_f64():
    """Makes transformers compute in float64 what it would compute in float32: softmax and angles."""
    torch.float = torch.float32 = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)


def main():
    single = torch.float32
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    torch.manual_seed(36)
    model = ModernBertForMaskedLM(AutoConfig.for_model(**json.loads(json.dumps(CONFIG))))
    for name, parameter in model.named_parameters():
        scale, offset = (1.4 * parameter.shape[-1] ** -0.5, 0.0) if parameter.dim() > 1 else (0.3, 0.0 if "bias" in name else 1.0)
        parameter.data = scale * torch.randn_like(parameter) + offset
    model.to(torch.bfloat16).save_pretrained(FOLDER)
    (FOLDER / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (FOLDER / "generation_config.json").unlink(missing_ok=True)
    shutil.copy(FOLDER.parent / "tiny-bert/tokenizer.json", FOLDER)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER.parent / "tiny-bert")
    ids, other = (tokenizer(text).input_ids for text in TEXTS)
    other = other[: len(ids)]
    model = ModernBertForMaskedLM.from_pretrained(FOLDER, attn_implementation="eager", dtype=torch.float64).eval()
    in_f64()
    base = model.model
    base.rotary_emb = type(base.rotary_emb)(base.config)
    eager = modeling_modernbert.eager_attention_forward

    def run(ids, hook=None, temper=None):
        """Logits, attentions, hidden states and the stream before the final norm. `hook` is a module and a function before it."""

        def attention(module, query, *args, **kwargs):
            if temper and module.layer_idx == temper[0]:
                query = query.clone()
                query[:, temper[1]] /= temper[2]
            return eager(module, query, *args, **kwargs)

        modeling_modernbert.eager_attention_forward = attention
        last = []
        hooks = [base.final_norm.register_forward_pre_hook(lambda _, args: last.append(args[0]))]
        if hook:
            hooks.append(hook[0].register_forward_pre_hook(hook[1]))
        with torch.no_grad():
            out = model(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
        for made in hooks:
            made.remove()
        return dict(logits=out.logits[0], attentions=torch.cat(out.attentions), hidden_states=torch.cat(out.hidden_states),
                    residual_last=last[0][0])

    def zero(head):
        def change(_, args):
            z = args[0].clone()
            z[..., head * 10 : (head + 1) * 10] = 0
            return (z,)

        return change

    def put(position, stream):
        def change(_, args):
            x = args[0].clone()
            x[:, position] = stream
            return (x, *args[1:])

        return change

    tensors = run(ids)
    tensors["ablated/1.1/logits"] = run(ids, (base.layers[1].attn.Wo, zero(1)))["logits"]
    tensors["ablated/0.0/logits"] = run(ids, (base.layers[0].attn.Wo, zero(0)))["logits"]
    tensors["tempered/2.0=0.5/logits"] = run(ids, temper=(2, 0, 0.5))["logits"]
    stream = run(other)["hidden_states"][3][4]
    tensors["patched/3.4/logits"] = run(ids, (base.layers[3], put(4, stream)))["logits"]
    streams = torch.cat([tensors["hidden_states"][:-1], tensors["residual_last"][None]])
    with torch.no_grad():
        lens = model.decoder(model.head(base.final_norm(streams))).topk(5)
    tensors["lens_logits"] = lens.values
    tensors = {key: value.to(single).contiguous() for key, value in tensors.items()}
    tensors |= {"input_ids": torch.tensor(ids), "input_ids_b": torch.tensor(other), "lens": lens.indices}
    save_file(tensors, FOLDER / "expected.safetensors")
    notes = {"text": tokenizer.decode(ids, skip_special_tokens=True), "tokens": tokenizer.convert_ids_to_tokens(ids)}
    assert tokenizer(notes["text"]).input_ids == ids, notes
    (FOLDER / "expected.json").write_text(json.dumps(notes, ensure_ascii=False) + "\n")
    for path in FOLDER.iterdir():
        path.chmod(0o644)


main()
