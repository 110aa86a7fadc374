# Prints the commands in the `sh` blocks of one section of README.md, one a line: of "Two
# commands" unless -v section=... names another. What stands there is run by .ci/run exactly as
# printed, so these sections can never be wrong.
BEGIN { if (!section) section = "Two commands" }
/^## / { wanted = ($0 == "## " section) }
/^```/ { inside = wanted && ($0 == "```sh"); next }
inside && NF && $0 !~ /^#/ { print }
