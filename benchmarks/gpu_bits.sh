#!/bin/sh
# All cases of gpu_check.py, spread over processes, since compiling them is most of the work. Usage: gpu_bits.sh FOLDER
n=12
for i in $(seq 0 $((n - 1))); do python3 benchmarks/gpu_check.py bits $1 400 "" $i/$n > $1/log$i.txt 2>&1 & done
wait
grep -h "cases," $1/log*.txt
cat $1/log*.txt | grep -v "cases," | cut -c1-400 | head -30
cat $1/bits*.txt > $1/all_bits.txt; rm $1/bits*.txt $1/log*.txt
