#!/bin/sh
# Runs the scripts that arrive on the second serial port, until one writes /run/next. A request is a
# line "NUMBER BYTES" and the script; the answer is a line "result NUMBER EXIT-CODE BYTES" and what
# the script printed.
exec 3<>/dev/ttyS1
stty raw -echo <&3
echo ready >&3
while [ ! -e /run/next ] && read -r number bytes <&3; do
    dd bs=1 count="$bytes" of=/run/script <&3 2>/dev/null
    sh /run/script </dev/null >/run/output 2>&1 3>&-
    code=$?
    echo "result $number $code $(stat -c %s /run/output)" >&3
    cat /run/output >&3
done
