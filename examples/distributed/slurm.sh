#!/bin/bash
# A batch script: `sbatch examples/distributed/slurm.sh train.py --epochs=3` runs a program on two nodes.
#SBATCH --job-name=triten
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --signal=TERM@60        # a minute before the end, for a last checkpoint
#SBATCH --output=%x-%j.log

set -euo pipefail

# One agent on each node starts the ranks there, and starts all of them again after a failure. The agent on the node that
# has the endpoint's address serves the others.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun python -m triten.distributed.run \
    --nnodes="$SLURM_JOB_NUM_NODES" \
    --nproc-per-node="${RANKS_PER_NODE:-auto}" \
    --rdzv-backend=c10d \
    --rdzv-id="$SLURM_JOB_ID" \
    --rdzv-endpoint="$first:29400" \
    --max-restarts="${RESTARTS:-0}" \
    "${@:-examples/distributed/hello.py}"

# Without an agent, `srun` starts the ranks itself: with --ntasks-per-node=8 above,
#
#     srun python train.py
#
# `init_process_group` reads SLURM's variables; the store is on the job's first node.
