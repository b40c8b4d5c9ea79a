"""Trains two classifiers of sensor windows and writes them beside this script, each with 400 windows that training did not see.
Needs torch, transformers and safetensors; takes two minutes.

motion     six channels of 32 steps: acceleration in m/s², which includes gravity, and rotation in degrees per second, which is 100
           times as large; five motions
vibration  one channel of 64 steps in g: noise of a few thousandths with rare impulses, 50 times as large; four states of a bearing

Both are trained on normalized numbers. The normalization is then folded into the projection, so that the models read raw numbers and
have no preprocessor_config.json, as a model of windows has none.
"""
import math
import pathlib

import torch
from safetensors.torch import save_file
from transformers import ViTConfig, ViTForImageClassification

HERE = pathlib.Path(__file__).parent


def motion(count, generator):
    uniform = lambda *shape: torch.rand(*shape, generator=generator)
    label = torch.randint(5, (count,), generator=generator)
    t = torch.arange(32) / 32
    rate = torch.tensor([0.0, 1.5, 2.5, 2.0, 4.0])[label] + 0.6 * uniform(count)
    phase, size = 2 * math.pi * uniform(count), 0.5 + uniform(count)
    wave = torch.sin(2 * math.pi * rate[:, None] * t + phase[:, None]) * size[:, None]
    swing = torch.cos(2 * math.pi * rate[:, None] * t + phase[:, None]) * size[:, None]
    x = torch.zeros(count, 6, 32)
    acceleration = torch.tensor([0.1, 2.0, 3.0, 0.5, 2.5])[label][:, None]
    rotation = torch.tensor([5.0, 40.0, 60.0, 250.0, 120.0])[label][:, None]
    x[:, 0], x[:, 1], x[:, 2] = acceleration * wave, 0.5 * acceleration * swing, 9.81 + 0.7 * acceleration * wave
    x[:, 3], x[:, 4], x[:, 5] = rotation * swing, -0.6 * rotation * wave, 0.3 * rotation * swing
    noise = torch.randn(count, 6, 32, generator=generator)
    return x + noise * torch.tensor([1.2, 1.2, 1.2, 40.0, 40.0, 40.0])[:, None], label


def vibration(count, generator):
    uniform = lambda *shape: torch.rand(*shape, generator=generator)
    label = torch.randint(4, (count,), generator=generator)
    x = 0.004 * torch.randn(count, 1, 64, generator=generator)
    period = torch.tensor([0, 21, 14, 9])[label]
    for i in range(count):
        if period[i] == 0:  # one impulse now and then
            places = [int(64 * uniform(1))] if uniform(1) < 0.5 else []
        else:
            start = int(period[i] * uniform(1))
            places = range(start, 64, int(period[i]))
        size = 0.02 + 0.2 * uniform(1)[0] ** 3
        for place in places:
            rest = torch.arange(64 - place)
            jitter = 0.4 + 0.6 * uniform(1)
            x[i, 0, place:] += size * jitter * torch.exp(-rest / 1.5) * torch.cos(2.2 * rest)
    return x, label


def train(name, make, channels, steps, patch, classes, width):
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    windows, labels = make(4000, generator)
    test, truth = make(400, generator)
    mean = windows.mean((0, 2), keepdim=True)
    deviation = windows.std((0, 2), keepdim=True)
    config = ViTConfig(image_size=(1, steps), patch_size=(1, patch), num_channels=channels, hidden_size=width,
                       intermediate_size=2 * width, num_hidden_layers=2, num_attention_heads=4, num_labels=classes,
                       hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = ViTForImageClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.05)
    epochs, batch = 16, 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=epochs * (4000 // batch))
    for _ in range(epochs):
        order = torch.randperm(4000, generator=generator)
        for start in range(0, 4000 - batch + 1, batch):
            rows = order[start:start + batch]
            pixels = ((windows[rows] - mean) / deviation)[:, :, None]
            loss = model(pixel_values=pixels, labels=labels[rows]).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        projection = model.vit.embeddings.patch_embeddings.projection
        projection.weight /= deviation[:, :, None]
        projection.bias -= (projection.weight * mean[:, :, None]).sum((1, 2, 3))
        right = (model(pixel_values=test[:, :, None]).logits.argmax(1) == truth).float().mean()
    print(name, f"{100 * right:.2f} % right,", sum(p.numel() for p in model.parameters()), "weights")
    folder = HERE / name
    model.save_pretrained(folder)
    save_file({"pixel_values": test[:, :, None].contiguous(), "labels": truth.float()}, folder / "windows.safetensors")


train("motion", motion, 6, 32, 4, 5, 16)
train("vibration", vibration, 1, 64, 4, 4, 16)
