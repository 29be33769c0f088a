package lint

// CodeInvalid is the code of what `stepwell validate` reports too.
const CodeInvalid = "SW001"

// codeSuppression is the code of a comment that suppresses nothing.
const codeSuppression = "SW002"

// Rule is one kind of mistake.
type Rule struct {
	Code  string `json:"code"`
	Name  string `json:"name"`
	Short string `json:"short"` // one sentence
	Error bool   `json:"error"` // of problems that must fail when the pipeline runs
}

// Rules are all rules, in the order of their codes. The comment `# stepwell: ignore CODE reason` suppresses them, except
// errors of SW001.
var Rules = []Rule{
	{CodeInvalid, "invalid", "The definition is invalid: what `stepwell validate` reports.", true},
	{codeSuppression, "useless-suppression", "A suppression comment has no reason, names no rule, or suppresses nothing.", false},
	{"SW101", "no-such-member", "A template reads an output or member that does not exist.", true},
	{"SW102", "wrong-type", "A template gives a value of a type that the parameter does not take.", true},
	{"SW103", "wrong-operand", "An operator is used on values that it does not take.", true},
	{"SW104", "wrong-argument", "A filter, test or method is used on a value that it does not take.", true},
	{"SW105", "may-be-absent", "A value is needed that there may not be: of a step that may be skipped, or of an optional parameter.", false},
	{"SW106", "wrong-pipeline-parameter", "A sub-pipeline is given a value that its parameter does not take.", true},
	{"SW107", "nothing-to-repeat", "A for_each has neither a list, nor an object, nor a number.", true},
	{"SW108", "unused-parameter", "A declared parameter is read nowhere.", false},
	{"SW201", "constant-condition", "A condition always holds, or never.", false},
	{"SW202", "never-equal", "A value is compared with one that it never has.", false},
	{"SW203", "never-runs", "A step can never run.", false},
	{"SW204", "stopped-by-fail-fast", "A step waits for a failure after which fail_fast lets nothing start.", false},
	{"SW301", "race", "Steps without an order write to the same place.", false},
	{"SW302", "loop-overwrites", "The iterations of a for_each write to the same place.", false},
	{"SW303", "unsafe-retry", "A step is retried whose effect must not be repeated.", false},
	{"SW304", "no-time-limit", "A command uses the network without a time limit.", false},
	{"SW305", "attempts-exceed-timeout", "The attempts of a step take longer than the pipeline may.", false},
	{"SW306", "unbounded-loop", "A parameter decides how many commands, jobs or sub-pipelines run at once.", false},
	{"SW401", "secret-in-log", "A secret reaches a log line or an error message.", false},
	{"SW402", "secret-in-command", "A secret stands in a command line, which other processes see.", true},
	{"SW403", "secret-in-url", "A secret stands in a URL, which servers and proxies log.", false},
	{"SW404", "secret-in-output", "A secret reaches an output.", false},
	{"SW405", "secret-exposed", "A secret is handed to a sub-pipeline as a parameter that is not secret.", false},
	{"SW501", "never-fires", "A schedule never fires.", false},
	{"SW502", "clock-change", "A schedule skips, moves or repeats a firing when clocks change.", false},
	{"SW503", "overlapping-schedule", "A schedule fires more often than an execution takes, or catches up for longer than executions are kept.", false},
	{"SW504", "short-time-limit", "A time limit is shorter than what past executions took.", false},
}

// RuleOf finds a rule by its code.
func RuleOf(code string) (Rule, bool) {
	for _, r := range Rules {
		if r.Code == code {
			return r, true
		}
	}
	return Rule{}, false
}
