# SPDX-License-Identifier: GPL-2.0
#
# Turn what a test printed into TAP that any reader takes, whatever happened to
# it. Variables:
#   name	of the test
#   rc		exit status of vm.sh
#   errs	file with what vm.sh said about a dead guest or a kernel warning
#
# Lines that are no TAP become diagnostics. What the output does not tell becomes
# failing lines at the end: no plan, too few tests, a status that contradicts
# them, a dead guest, a kernel warning. The last line goes to "stat":
#   <tests> <failed> <skipped>

{
	sub(/\r$/, "")
}

/^(TAP|KTAP) version [0-9]+$/ {
	next
}

/^1\.\.[0-9]+/ && plan == "" {
	plan = substr($1, 4) + 0
	if (plan == 0)
		skip_all = $0
	next
}

/^(not )?ok([ \t]|$)/ {
	line = $0
	bad = sub(/^not ok/, "", line)
	if (!bad)
		sub(/^ok/, "", line)
	sub(/^[ \t]+/, "", line)
	if (match(line, /^[0-9]+/)) {
		if (substr(line, 1, RLENGTH) + 0 != tests + 1)
			body = body "# was number " substr(line, 1, RLENGTH) "\n"
		line = substr(line, RLENGTH + 1)
		sub(/^[ \t]+/, "", line)
	}
	result(bad, line)
	next
}

/^Bail out!/ {
	bail = $0
	body = body "# " $0 "\n"
	next
}

/^#/ {
	body = body $0 "\n"
	next
}

{
	body = body "# " $0 "\n"
}

function result(bad, text)
{
	tests++
	if (text ~ /#[ \t]*([Ss][Kk][Ii][Pp])/)
		skipped++
	else if (bad && text !~ /#[ \t]*(TODO|XFAIL)/)
		failed++
	body = body (bad ? "not ok " : "ok ") tests (text == "" ? "" : " " text) "\n"
}

function extra(text)
{
	result(1, name ": " text)
}

END {
	if (skip_all == "" || rc != 4) {
		if (skip_all != "")
			plan = 0
		if (bail != "")
			extra("bailed out")
		else if (plan == "" && (rc < 96 || rc > 99))
			extra("printed no plan, exit status " rc)
		else if (plan != "" && skip_all == "" && tests != plan)
			extra("planned " plan " tests and ran " tests + 0)
	}
	said = ""
	while (errs != "" && (getline line < errs) > 0)
		said = said "# " line "\n"
	if (said != "")
		body = body said
	if (rc == 96)
		extra("no virtual machine")
	else if (rc == 97)
		extra("the guest died")
	else if (rc == 98)
		extra("not finished at the deadline")
	else if (rc == 99)
		extra("the kernel's log has a warning")
	else if (rc != 0 && rc != 4 && !failed)
		extra("exit status " rc)
	else if (rc == 4 && !failed && skip_all == "" && tests != skipped)
		extra("exit status 4, which means skipped, after tests that ran")

	print "TAP version 13"
	if (tests == 0)
		print (skip_all != "" ? skip_all : "1..0 # SKIP no tests")
	else
		print "1.." tests
	printf "%s", body
	if (stat != "")
		print tests + 0, failed + 0, (tests == 0 ? 1 : skipped + 0) > stat
}
