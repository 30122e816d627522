#!/bin/sh
# Runs one command on the server, for the connection plug-in: a line "COMMAND-BYTES INPUT-BYTES", the
# command and its input arrive; a line "CODE OUTPUT-BYTES ERROR-BYTES", its output and errors leave.
folder=$(mktemp -d)
read -r command input
head -c "$command" >"$folder/command"
head -c "$input" >"$folder/input"
/bin/sh "$folder/command" <"$folder/input" >"$folder/output" 2>"$folder/errors"
code=$?
echo "$code $(stat -c %s "$folder/output") $(stat -c %s "$folder/errors")"
cat "$folder/output" "$folder/errors"
rm -r "$folder"
