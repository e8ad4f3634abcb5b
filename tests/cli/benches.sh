# Problems by seeds are problems that the command takes: without a GPU a bench ends every run at that.
source "$(dirname "$0")/check.sh"
export CUDA_VISIBLE_DEVICES=

# ends_at_the_device LEAST ARGUMENTS...: so many runs at least begin, and all end for want of a device.
ends_at_the_device() {
  local least=$1
  shift
  python3 "$source_dir/scripts/bench_gpu.py" --stagger "$stagger" --no-torch \
    --machine "$source_dir/configs/machines/h200.json" "$@" >"$work/output" 2>&1 </dev/null
  checks=$((checks + 1))
  if [ "$(grep -c '^FAILED, exit 77: ' "$work/output")" -lt "$least" ] ||
    grep '^FAILED' "$work/output" | grep -qv '^FAILED, exit 77: '; then
    fail "a run that does not begin: bench_gpu.py $*"
    grep -v '^FAILED, exit 77: ' "$work/output" | head -5
  fi
}
ends_at_the_device 20 --problems 12
ends_at_the_device 4 --problems 12 --mask full prefix
ends_at_the_device 4 --problems 12 --head-dim 64 --spans 1
ends_at_the_device 6 --random 6 --seqlen 512 1024
ends_at_the_device 8 --seqlen 512 --mask causal --schedules spt symmetric-shift shift lpt-ascending \
  windowed

finish 5
