package builtin

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
)

// Required is a program that an action needs, and how it tells its version.
type Required struct {
	Name   string // of the program on PATH
	Action string // that needs it
	Args   []string
	Env    []string       // of the program, all of it
	Text   *regexp.Regexp // finds the version in the program's output: in whole, its first number and its second
	Least  [2]int         // the first two numbers of the oldest version that is taken
	Oldest string         // the same for people: "2.32 or later"
}

// Version finds the program and its version. CodeInvalid where there is none, or one that is too old.
func (r *Required) Version(ctx context.Context) (path, version string, err error) {
	hint := "install " + r.Name + " " + r.Oldest
	path, err = exec.LookPath(r.Name)
	if err != nil {
		return "", "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: r.Action + " needs the program " + r.Name + ", which is not on PATH", Hint: hint + " where the step runs", Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, r.Args...)
	cmd.Env, cmd.WaitDelay = r.Env, time.Second
	out, err := cmd.Output()
	if err != nil {
		return path, "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: path + " version", Err: err}
	}
	m := r.Text.FindStringSubmatch(string(out))
	if m == nil {
		return path, "", stepwell.Errorf(stepwell.CodeInvalid, hint, "%s does not tell its version", path)
	}
	major, _ := strconv.Atoi(m[2]) // digits
	minor, _ := strconv.Atoi(m[3])
	if major < r.Least[0] || major == r.Least[0] && minor < r.Least[1] {
		return path, m[1], stepwell.Errorf(stepwell.CodeInvalid, hint, "%s is version %s", path, m[1])
	}
	return path, m[1], nil
}
