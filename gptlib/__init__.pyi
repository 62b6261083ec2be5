from . import (
    accounting,
    attention,
    chat,
    config,
    exercises,
    figures,
    hf_config,
    kv_cache,
    ladder,
    model,
    muon,
    norms,
    numpy_gpt,
    page_gpt,
    panels,
    parallel,
    recipe,
    run,
    sampling,
    storage,
    text,
    trainer,
)
from .accounting import account
from .attention import CausalSelfAttention
from .chat import Chat
from .config import GPTConfig
from .kv_cache import KVCache
from .model import GPT, Block, FeedForward
from .norms import LayerNorm, RMSNorm
from .numpy_gpt import NumpyGPT
from .numpy_gpt.packed import for_decoding
from .recipe import TrainConfig, learning_rate
from .run import Run
from .sampling import FilterTrace, Settings, Step, generate, stream
from .storage import checkpoint, gguf, gpt2, llama
from .storage.checkpoint import load
from .text import byte_pairs, corpus, shards, tokenizers
from .text.tokenizers import ByteTokenizer, CharTokenizer, gpt2_tokenizer
from .trainer import StepRecord, Trainer

__all__ = [
    "GPT",
    "Block",
    "ByteTokenizer",
    "CausalSelfAttention",
    "CharTokenizer",
    "Chat",
    "FeedForward",
    "FilterTrace",
    "GPTConfig",
    "KVCache",
    "LayerNorm",
    "NumpyGPT",
    "RMSNorm",
    "Run",
    "Settings",
    "Step",
    "StepRecord",
    "TrainConfig",
    "Trainer",
    "account",
    "accounting",
    "attention",
    "byte_pairs",
    "chat",
    "checkpoint",
    "config",
    "corpus",
    "exercises",
    "figures",
    "for_decoding",
    "generate",
    "gguf",
    "gpt2",
    "gpt2_tokenizer",
    "hf_config",
    "kv_cache",
    "ladder",
    "learning_rate",
    "llama",
    "load",
    "model",
    "muon",
    "norms",
    "numpy_gpt",
    "page_gpt",
    "panels",
    "parallel",
    "recipe",
    "run",
    "sampling",
    "shards",
    "storage",
    "stream",
    "text",
    "tokenizers",
    "trainer",
]

__version__: str
