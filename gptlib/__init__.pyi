from . import (
    accounting,
    checkpoint,
    config,
    corpus,
    decoding,
    exercises,
    figures,
    gpt2,
    kv_cache,
    model,
    muon,
    numpy_gpt,
    panels,
    parallel,
    sampling,
    shards,
    tokenizers,
    train_config,
    trainer,
)
from .accounting import account
from .config import GPTConfig
from .decoding import for_decoding
from .kv_cache import KVCache
from .model import GPT, Block, CausalSelfAttention, FeedForward, LayerNorm
from .numpy_gpt import NumpyGPT
from .sampling import FilterTrace, Step, generate, stream
from .tokenizers import ByteTokenizer, CharTokenizer, gpt2_tokenizer
from .train_config import TrainConfig, learning_rate
from .trainer import StepRecord, Trainer

__all__ = [
    "GPT",
    "Block",
    "ByteTokenizer",
    "CausalSelfAttention",
    "CharTokenizer",
    "FeedForward",
    "FilterTrace",
    "GPTConfig",
    "KVCache",
    "LayerNorm",
    "NumpyGPT",
    "Step",
    "StepRecord",
    "TrainConfig",
    "Trainer",
    "account",
    "accounting",
    "checkpoint",
    "config",
    "corpus",
    "decoding",
    "exercises",
    "figures",
    "for_decoding",
    "generate",
    "gpt2",
    "gpt2_tokenizer",
    "kv_cache",
    "learning_rate",
    "model",
    "muon",
    "numpy_gpt",
    "panels",
    "parallel",
    "sampling",
    "shards",
    "stream",
    "tokenizers",
    "train_config",
    "trainer",
]

__version__: str
