#!/bin/bash
# A small MoE model as a launch script has it.
TP=2
MODEL_ARGS=(
  --num-layers 16 --hidden-size 2048 --ffn-hidden-size 1024
  --num-attention-heads 16 --group-query-attention --num-query-groups 4
  --seq-length 4096 --max-position-embeddings 4096 --swiglu --untie-embeddings-and-output-weights
  --num-experts 64 --moe-router-topk 8 --moe-ffn-hidden-size 1024 --vocab-size 50304
)
torchrun --nproc_per_node 8 pretrain_gpt.py "${MODEL_ARGS[@]}" --tensor-model-parallel-size ${TP} --sequence-parallel \
  --pipeline-model-parallel-size 2 --expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --micro-batch-size 2 --global-batch-size 256 \
  --use-distributed-optimizer --recompute-granularity selective --bf16
