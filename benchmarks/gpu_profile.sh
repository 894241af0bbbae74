#!/bin/sh
# Profile single cases: stall reasons, issue use and the instructions of the hot loop. Usage: gpu_profile.sh FOLDER CASE...
out=$1; shift
for c in "$@"; do
  export UPSWEEP_CACHE_DIR=/tmp/cubins_$c
  ncu --clock-control none -k regex:upsweep -s 2 -c 1 --metrics gpu__time_duration.sum,sm__inst_executed.sum,sm__inst_issued.avg.pct_of_peak_sustained_active,smsp__issue_active.avg.pct_of_peak_sustained_active,lts__t_sectors.sum,lts__t_sectors_op_read.sum,l1tex__data_bank_conflicts_pipe_lsu.sum,l1tex__data_pipe_lsu_wavefronts_mem_shared.sum,smsp__inst_executed_op_shared.sum,dram__bytes.sum,launch__occupancy_limit_shared_mem,sm__warps_active.avg.per_cycle_active,smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio,smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio,smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio,smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio,smsp__average_warps_issue_stalled_wait_per_issue_active.ratio python3 benchmarks/gpu_tune.py once $c 2>&1 | grep -E "__|upsweep" | sed "s/^ */$c /"
  for f in /tmp/cubins_$c/*.cubin; do
    nvdisasm -c $f > $out/$c.sass 2>/dev/null
    echo "$c sass: $(grep -c '^ *\/\*' $out/$c.sass) $(grep -oE '^ +/\*[0-9a-f]+\*/ +(@!?U?P[0-9T]+ )?[A-Z0-9]+' $out/$c.sass | awk '{print $NF}' | sort | uniq -c | sort -rn | head -24 | awk '{printf "%s:%s ",$2,$1}')"
  done
done
