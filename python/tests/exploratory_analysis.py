"""An exploratory analysis of indirect objects, as one writes it with TransformerLens: who gets the thing?

`test_lens.py` runs it as it stands. `tests/golden/lens/record.py` runs it with TransformerLens, with the import changed and nothing else.
The caller gives `model`, and reads `results`.
"""

# ruff: noqa: F821
from functools import partial

import torch

from regard.lens import utils

torch.set_grad_enabled(False)
results = {}

# The task
prompt_format = [
    "When John and Mary went to the store,{} gave the bag to",
    "When Tom and James went to the park,{} gave the ball to",
    "When Anna and Ben went to the store,{} gave the apple to",
    "When Paul and Lucy went to the park,{} gave the drink to",
]
names = [(" John", " Mary"), (" Tom", " James"), (" Anna", " Ben"), (" Paul", " Lucy")]
prompts, answers, answer_tokens = [], [], []
for i in range(len(prompt_format)):
    for j in range(2):
        answers.append((names[i][j], names[i][1 - j]))
        answer_tokens.append((model.to_single_token(answers[-1][0]), model.to_single_token(answers[-1][1])))
        prompts.append(prompt_format[i].format(answers[-1][1]))
answer_tokens = torch.tensor(answer_tokens).to(model.cfg.device)
tokens = model.to_tokens(prompts, prepend_bos=True)
results["tokens"] = tokens

original_logits, cache = model.run_with_cache(tokens)
results["loss"] = model(tokens, return_type="loss")


def logits_to_ave_logit_diff(logits, answer_tokens, per_prompt=False):
    final_logits = logits[:, -1, :]
    answer_logits = final_logits.gather(dim=-1, index=answer_tokens)
    answer_logit_diff = answer_logits[:, 0] - answer_logits[:, 1]
    return answer_logit_diff if per_prompt else answer_logit_diff.mean()


results["last logits"] = original_logits[:, -1]
results["logit diff"] = logits_to_ave_logit_diff(original_logits, answer_tokens, per_prompt=True)
original_average_logit_diff = logits_to_ave_logit_diff(original_logits, answer_tokens)

# Direct logit attribution
answer_residual_directions = model.tokens_to_residual_directions(answer_tokens)
logit_diff_directions = answer_residual_directions[:, 0] - answer_residual_directions[:, 1]
final_token_residual_stream = cache["resid_post", -1][:, -1, :]
scaled_final_token_residual_stream = cache.apply_ln_to_stack(final_token_residual_stream, layer=-1, pos_slice=-1)
results["by directions"] = (scaled_final_token_residual_stream * logit_diff_directions).sum(-1)


def residual_stack_to_logit_diff(residual_stack, cache):
    scaled_residual_stack = cache.apply_ln_to_stack(residual_stack, layer=-1, pos_slice=-1)
    return torch.einsum("...bd,bd->...", scaled_residual_stack, logit_diff_directions) / len(prompts)


accumulated_residual, labels = cache.accumulated_resid(layer=-1, incl_mid=True, pos_slice=-1, return_labels=True)
results["logit lens"] = residual_stack_to_logit_diff(accumulated_residual, cache)
results["logit lens labels"] = labels
per_layer_residual, labels = cache.decompose_resid(layer=-1, pos_slice=-1, return_labels=True)
results["attribution of layers"] = residual_stack_to_logit_diff(per_layer_residual, cache)
results["attribution labels"] = labels
per_head_residual, labels = cache.stack_head_results(layer=-1, pos_slice=-1, return_labels=True)
per_head_logit_diffs = residual_stack_to_logit_diff(per_head_residual, cache)
results["attribution of heads"] = per_head_logit_diffs.reshape(model.cfg.n_layers, model.cfg.n_heads)
results["logit_attrs"] = cache.logit_attrs(per_layer_residual, answer_tokens[:, 0], answer_tokens[:, 1], pos_slice=-1)
results["normed stream"] = cache.accumulated_resid(apply_ln=True, pos_slice=-1)

# Activation patching: from the runs in which the other one gives
corrupted_tokens = tokens[[i + 1 if i % 2 == 0 else i - 1 for i in range(len(tokens))]]
corrupted_logits, corrupted_cache = model.run_with_cache(corrupted_tokens, return_type="logits")
corrupted_average_logit_diff = logits_to_ave_logit_diff(corrupted_logits, answer_tokens)


def normalize_patched_logit_diff(patched_logit_diff):
    return (patched_logit_diff - corrupted_average_logit_diff) / (original_average_logit_diff - corrupted_average_logit_diff)


def patch_residual_component(corrupted_residual_component, hook, pos, clean_cache):
    corrupted_residual_component[:, pos, :] = clean_cache[hook.name][:, pos, :]
    return corrupted_residual_component


def patch_head_vector(corrupted_head_vector, hook, head_index, clean_cache):
    corrupted_head_vector[:, :, head_index, :] = clean_cache[hook.name][:, :, head_index, :]
    return corrupted_head_vector


def patch_head_pattern(corrupted_head_pattern, hook, head_index, clean_cache):
    corrupted_head_pattern[:, head_index, :, :] = clean_cache[hook.name][:, head_index, :, :]
    return corrupted_head_pattern


def patched(name, layers, columns, function):
    found = torch.zeros(layers, columns)
    for layer in range(layers):
        for column in range(columns):
            hook_fn = partial(function, **{"pos" if function is patch_residual_component else "head_index": column}, clean_cache=cache)
            patched_logits = model.run_with_hooks(corrupted_tokens, fwd_hooks=[(utils.get_act_name(name, layer), hook_fn)], return_type="logits")
            found[layer, column] = normalize_patched_logit_diff(logits_to_ave_logit_diff(patched_logits, answer_tokens))
    return found


layers, positions, heads = model.cfg.n_layers, tokens.shape[1], model.cfg.n_heads
for name in ("resid_pre", "attn_out", "mlp_out"):
    results[f"patched {name}"] = patched(name, layers, positions, patch_residual_component)
for name in ("z", "v"):
    results[f"patched {name}"] = patched(name, layers, heads, patch_head_vector)
results["patched pattern"] = patched("pattern", layers, heads, patch_head_pattern)

# Heads that look at the previous token, and at the token after the same one
torch.manual_seed(1)
half = 20
rep_tokens = torch.randint(3, model.cfg.d_vocab, (2, half))
rep_tokens = torch.cat([rep_tokens, rep_tokens], dim=1)
induction, previous = torch.zeros(layers, heads), torch.zeros(layers, heads)


def scores_of_heads(pattern, hook):
    previous[hook.layer()] = pattern.diagonal(dim1=-2, dim2=-1, offset=-1).mean(dim=(0, -1))
    induction[hook.layer()] = pattern.diagonal(dim1=-2, dim2=-1, offset=1 - half).mean(dim=(0, -1))


model.run_with_hooks(rep_tokens, return_type=None, fwd_hooks=[(lambda name: name.endswith("pattern"), scores_of_heads)])
results["previous token"], results["induction"] = previous, induction

# Weights
results["W_Q"] = model.W_Q[-1, 0]
results["W_O"] = model.blocks[0].attn.W_O[1]
results["W_U"] = model.W_U[:, :50]
results["QK"] = model.QK[0, 1].AB
results["OV S"] = model.OV[0, 1].S
