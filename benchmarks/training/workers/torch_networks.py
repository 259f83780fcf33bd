"""The networks of the cases for PyTorch, of layers that Opacus knows: the same shapes and operations."""
# pyright: reportMissingImports=false

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.training.cases import CNN_CLASSES, MLP_SIZES, TEXT, TRANSFORMER


def network(name: str) -> nn.Module:
    match name:
        case "mlp":
            first, second, third, last = MLP_SIZES
            return nn.Sequential(
                nn.Linear(first, second),
                nn.ReLU(),
                nn.Linear(second, third),
                nn.ReLU(),
                nn.Linear(third, last),
            )
        case "cnn":
            return CourseCNN()
        case "text":
            return TextBag()
        case _:
            return Transformer()


class CourseCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 8, 2, padding=3), nn.Conv2d(16, 32, 4, 2)
        self.dense1, self.dense2 = nn.Linear(512, 32), nn.Linear(32, CNN_CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(torch.relu(self.conv1(x[:, None])), 2, 1)  # (batch, 16, 13, 13)
        x = functional.max_pool2d(torch.relu(self.conv2(x)), 2, 1)  # (batch, 32, 4, 4)
        return self.dense2(torch.relu(self.dense1(x.flatten(1))))


class TextBag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TEXT["symbols"], TEXT["width"])
        self.dense = nn.Linear(TEXT["width"], TEXT["classes"])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.dense(_mean_of_words(self.embedding(tokens), tokens))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width, length = TRANSFORMER["width"], TRANSFORMER["length"]
        self.embedding, self.positions = (
            nn.Embedding(TRANSFORMER["symbols"], width),
            nn.Embedding(length, width),
        )
        self.layers = nn.ModuleList(Layer(width) for _ in range(TRANSFORMER["layers"]))
        self.norm, self.dense = nn.LayerNorm(width), nn.Linear(width, TRANSFORMER["classes"])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1]).expand_as(tokens).contiguous()
        x = self.embedding(tokens) + self.positions(places)  # (batch, length, width)
        may_see = (tokens != 0)[:, None, None, :]  # (batch, 1, 1, length)
        for layer in self.layers:
            x = layer(x, may_see)
        return self.dense(_mean_of_words(self.norm(x), tokens))


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.looks, self.gathers = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense1, self.dense2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, may_see: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = TRANSFORMER["heads"]
        parts = self.looks(self.norm1(x)).view(batch, length, 3, heads, width // heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # (batch, heads, length, width / heads) each
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=may_see)
        x = x + self.gathers(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.dense2(functional.gelu(self.dense1(self.norm2(x)), approximate="tanh"))


def _mean_of_words(vectors: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    is_word = (tokens != 0).float()  # (batch, length)
    share = is_word / is_word.sum(1, keepdim=True).clamp(min=1)
    return (share[:, None, :] @ vectors)[:, 0]  # (batch, width)
