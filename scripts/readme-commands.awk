# Prints the commands in the `sh` blocks of README.md's section "Two commands", one a line.
# What stands there is run by .ci/run exactly as printed, so the section can never be wrong.
/^## / { wanted = ($0 == "## Two commands") }
/^```/ { inside = wanted && ($0 == "```sh"); next }
inside && NF && $0 !~ /^#/ { print }
