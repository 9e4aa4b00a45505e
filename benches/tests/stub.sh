#!/bin/sh
# A companion that computes nothing: it plays the protocol of `src/companion.rs`, for the rehearsal of `tests/rehearsal.rs`.
# It has a rival for every kernel but those of softmax, one that is wrong, and one that fails when it is timed.
tab=$(printf '\t')
printf 'ready\tstub 1\n'
while IFS="$tab" read -r request kernel size; do
    case "$request $kernel" in
    open\ softmax*) printf 'failed\tno softmax here\n' ;;
    open\ *) printf 'rival\ttorch.compile\t0\nrival\twrong\t1\nrival\tfails\t0\nabsent\tpyptx\tnot installed\ndone\n' ;;
    time\ fails) printf 'failed\tout of order\n' ;;
    time\ *) printf 'micros\t1.5\n' ;;
    close\ *) printf 'done\n' ;;
    esac
done
