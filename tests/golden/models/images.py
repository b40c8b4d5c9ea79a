"""Writes folders of tiny models of images, and of the texts that are compared with them, and what transformers gives for them in float64.

    pip install torch transformers
    python images.py [NAME ...]

A folder has what those of make.py have: logits or the pooled output, attentions, hidden states, and the runs in which a head's output is
zero, a head's scores are divided by a temperature, and a position of the stream is that of another input.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer

from make import InF64

FOLDER = Path(__file__).parent
IMAGES = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=28, image_size=12, patch_size=4)
DINO = IMAGES | dict(mlp_ratio=2, layerscale_value=1.0, id2label={str(i): name for i, name in enumerate(["cat", "dog", "owl", "newt"])})
TEXTS = dict(vocab_size=340, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=28, max_position_embeddings=32,
    pad_token_id=0, bos_token_id=2, eos_token_id=3)

# The class, its config.json, the type of the weights, and the height and the width of the processor's images, if it is another one.
MODELS = {
    "tiny-deit": ("DeiTForImageClassificationWithTeacher", IMAGES | dict(model_type="deit", id2label=DINO["id2label"]), torch.float32, [12, 12]),
    "tiny-dinov2": ("Dinov2ForImageClassification", DINO | dict(model_type="dinov2", use_swiglu_ffn=True), torch.float32, [16, 20]),
    "tiny-dinov2_with_registers": ("Dinov2WithRegistersModel", DINO | dict(
        model_type="dinov2_with_registers", num_register_tokens=2, image_size=20), torch.bfloat16, [12, 16]),
    "tiny-dinov3_vit": ("DINOv3ViTModel", IMAGES | dict(model_type="dinov3_vit", num_register_tokens=2, use_gated_mlp=True), torch.float32, [12, 16]),
    "tiny-clip_vision_model": ("CLIPVisionModelWithProjection", IMAGES | dict(model_type="clip_vision_model", projection_dim=6), torch.float16, [12, 12]),
    "tiny-clip_text_model": ("CLIPTextModelWithProjection", TEXTS | dict(model_type="clip_text_model", projection_dim=6), torch.float16),
    "tiny-siglip_vision_model": ("SiglipVisionModel", IMAGES | dict(model_type="siglip_vision_model"), torch.bfloat16, [12, 12]),
    "tiny-siglip_text_model": ("SiglipTextModel", TEXTS | dict(model_type="siglip_text_model", projection_size=6), torch.float32),
}


def randomized(model, seed):
    """Norm weights, factors and biases are random too, so that a forgotten one shows."""
    torch.manual_seed(seed)
    for name, parameter in model.named_parameters():
        drawn = torch.randn_like(parameter)
        one_row = parameter.dim() < 2 or "token" in name or "class_embedding" in name or "position" in name or "probe" in name
        if parameter.dim() == 1 and "class_embedding" not in name:
            parameter.data = 0.3 * drawn + (0.0 if name.endswith("bias") else 1.0)
        else:
            parameter.data = drawn * (0.5 if one_row else 1.4 * (parameter[0].numel() ** -0.5))
    return model


def written(name, seed=1):
    architecture, config, kind, *size = MODELS[name]
    folder, config = FOLDER / name, {"architectures": [architecture]} | config
    shutil.rmtree(folder, ignore_errors=True)
    made = AutoConfig.for_model(**json.loads(json.dumps(config)))
    randomized(getattr(transformers, architecture)(made), seed).to(kind).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    inputs, notes = [], {}
    if size:
        [height, width] = size[0]
        settings = dict(do_resize=True, size=dict(shortest_edge=24), do_center_crop=True, crop_size=dict(height=height, width=width), resample=3)
        (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n")
        inputs = [dict(pixel_values=torch.randn(1, 3, height, width).round(decimals=3).double()) for _ in range(2)]
    else:
        shutil.copy(FOLDER / "tiny-bert" / "tokenizer.json", folder)
        tokenizer = AutoTokenizer.from_pretrained(FOLDER / "tiny-bert")
        texts = "the cat sat on the naïve mat", "tokens look at other tokens and decide what"
        ids = [tokenizer(text).input_ids for text in texts]
        shortest = min(map(len, ids))
        inputs = [dict(input_ids=torch.tensor([one[: shortest - 1] + one[-1:]])) for one in ids]
        text = tokenizer.decode(inputs[0]["input_ids"][0], skip_special_tokens=True)
        notes = {"text": text, "tokens": tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids)}
    model = getattr(transformers, architecture).from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    heads, features = config["num_attention_heads"], config["hidden_size"]
    part = lambda head: slice(head * features // heads, (head + 1) * features // heads)
    attentions = [module for _, module in model.named_modules() if hasattr(module, "q_proj")]
    layers = [module for _, module in model.named_modules() if hasattr(module, "mlp") and type(module).__name__.endswith("Layer")]
    outputs = [getattr(attention, "o_proj", None) or attention.out_proj for attention in attentions]

    def run(given=inputs[0], hook=lambda: []):
        hooks = hook()
        out = model(**given, output_attentions=True, output_hidden_states=True)
        for one in hooks:
            one.remove()
        return out

    def ablated(layer, head):
        def hook(_, args):
            z = args[0].clone()
            z[..., part(head)] = 0
            return (z,)

        return lambda: [outputs[layer].register_forward_pre_hook(hook)]

    def tempered(layer, head, temperature):
        def hook(_, args, out):
            out = out.clone()
            out[..., part(head)] /= temperature
            return out

        return lambda: [attentions[layer].q_proj.register_forward_hook(hook)]

    def patched(layer, position, states):
        def hook(_, args, kwargs):
            x = (args[0] if args else kwargs["hidden_states"]).clone()
            x[:, position] = states[layer][:, position]
            return ((x, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": x})

        return lambda: [layers[layer].register_forward_pre_hook(hook, with_kwargs=True)]

    with InF64(), torch.no_grad():
        for module in model.modules():  # angles anew, in float64
            for child, rotary in list(module.named_children()):
                if "Rope" in type(rotary).__name__:
                    setattr(module, child, type(rotary)(model.config).eval())
        out = run()
        tensors = dict(attentions=torch.cat(out.attentions), hidden_states=torch.cat(out.hidden_states))
        kinds = [("logits", "logits"), ("pooler_output", "pooler_output"), ("image_embeds", "pooler_output"), ("text_embeds", "pooler_output")]
        found = [(ours, key) for key, ours in kinds if getattr(out, key, None) is not None]
        if getattr(out, "last_hidden_state", None) is not None:
            found.append(("last_hidden_state", "last_hidden_state"))
        tensors |= {ours: out[key][0] for ours, key in found}
        states = run(inputs[1]).hidden_states
        changes = {"ablated/0.1": ablated(0, 1), "ablated/1.2": ablated(1, 2), "tempered/1.0=0.5": tempered(1, 0, 0.5), "patched/1.2": patched(1, 2, states)}
        for change, hook in changes.items():
            changed = run(hook=hook)
            tensors |= {f"{change}/{ours}": changed[key][0] for ours, key in found}
    tensors = {key: value.to(torch.float32).contiguous() for key, value in tensors.items()}
    for end, given in zip(("", "_b"), inputs):
        tensors |= {key + end: value[0].to(torch.float32 if size else torch.int64) for key, value in given.items()}
    save_file(tensors, folder / "expected.safetensors")
    notes |= {"made_with": f"images.py, transformers {transformers.__version__}, float64 throughout, rounded to float32", "seed": seed}
    (folder / "expected.json").write_text(json.dumps(notes, indent=1, ensure_ascii=False) + "\n")
    print(name, {key: list(value.shape) for key, value in tensors.items() if "/" not in key})


transformers.logging.set_verbosity_error()
for name in sys.argv[1:] or MODELS:
    written(name)
