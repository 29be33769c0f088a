package lint

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
)

// effects reports attempts of a step that do harm or never end.
func (s *scene) effects(at spot) {
	step, about := s.step(at), s.action(s.step(at))
	if about == nil || step.Action == "" {
		return
	}
	s.unsafeRetry(at, step, about)
	s.noLimit(at, step, about)
	s.tooLong(at, step, about)
}

// attempts are those that the document asks for, and the place where it does.
func (s *scene) attempts(step *definition.Step) (n int, place string) {
	shared := s.def.Settings.RetryPolicy
	switch {
	case step.Retry != nil && step.Retry.MaxAttempts > 0:
		return step.Retry.MaxAttempts, "retry"
	case step.Retry != nil || step.OnFailure == "retry":
		place = "retry"
		if step.Retry == nil {
			place = "on_failure"
		}
		if shared != nil && shared.MaxAttempts > 0 {
			return shared.MaxAttempts, place
		}
		return 3, place
	case shared != nil:
		return cmp.Or(shared.MaxAttempts, 3), ""
	}
	return 1, ""
}

// unsafeRetry reports a retry of something that must not happen twice.
func (s *scene) unsafeRetry(at spot, step *definition.Step, about *spec.Spec) {
	n, place := s.attempts(step)
	if n < 2 && about.Retry != nil && step.Retry == nil && s.def.Settings.RetryPolicy == nil {
		n = about.Retry.MaxAttempts
	}
	if n < 2 || about.Effect != spec.AnyEffect {
		return
	}
	once := about.NotIdempotent
	if step.Idempotent != nil {
		once = !*step.Idempotent
	}
	switch {
	case once:
		s.report("SW303", at, place, fmt.Sprintf("%q has up to %d attempts, and is not idempotent", step.ID, n),
			"write retry: {max_attempts: 1}, or make a second attempt harmless and write idempotent: true")
	case about.Name == "util.http" && step.Params["idempotency_key"] == false && writing(step) && (step.Idempotent == nil || !*step.Idempotent):
		s.report("SW303", at, "params/idempotency_key", fmt.Sprintf("%q sends up to %d requests without an Idempotency-Key, by which the server could tell that they are one", step.ID, n),
			"leave idempotency_key out, write retry: {max_attempts: 1}, or idempotent: true if the server does the same thing only once")
	}
}

// writing reports whether a request changes something: not GET, HEAD, OPTIONS, PUT and DELETE, which may be repeated.
func writing(step *definition.Step) bool {
	method, given := step.Params["method"].(string)
	if given {
		return slices.Contains([]string{"POST", "PATCH"}, strings.ToUpper(method))
	}
	return slices.ContainsFunc([]string{"json", "form", "multipart", "file", "text"}, func(body string) bool { return step.Params[body] != nil })
}

// network finds programs that wait for others, in a line for the shell or as the program itself.
var (
	network = regexp.MustCompile(`(?:^|[;&|(]|\b(?:then|do|exec|sudo)\b)\s*(curl|wget|ssh|scp|sftp|rsync|nc)\b`)
	limited = regexp.MustCompile(`--max-time|--connect-timeout|\s-m\s*\d|--timeout|ConnectTimeout|\btimeout\s`)
)

// commandOf is the command of a step as one text.
func commandOf(step *definition.Step) string {
	switch command := step.Params["command"].(type) {
	case string:
		return command
	case []any:
		var words []string
		for _, word := range command {
			words = append(words, fmt.Sprint(word))
		}
		if len(words) == 3 && words[1] == "-c" {
			return words[2]
		}
		return strings.Join(words, " ")
	}
	return ""
}

func (s *scene) noLimit(at spot, step *definition.Step, about *spec.Spec) {
	if about.Name != "util.exec" || step.TimeoutSeconds > 0 {
		return
	}
	command := commandOf(step)
	if m := network.FindStringSubmatch(command); m != nil && !limited.MatchString(command) {
		limit := cmp.Or(about.Timeout, plan.DefaultTimeout)
		s.report("SW304", at, "params/command", fmt.Sprintf("%q runs %s without a time limit: a server that does not answer holds it for %s", step.ID, m[1], limit),
			"write timeout_seconds, or give the program a limit of its own")
	}
}

// tooLong reports attempts that the pipeline's own timeout cuts off.
func (s *scene) tooLong(at spot, step *definition.Step, about *spec.Spec) {
	most := seconds(s.def.Settings.TimeoutSeconds)
	if most == 0 || step.TimeoutSeconds == 0 {
		return
	}
	n, _ := s.attempts(step)
	one := seconds(step.TimeoutSeconds)
	if total := time.Duration(n) * one; one > most {
		s.report("SW305", at, "timeout_seconds", fmt.Sprintf("an attempt of %q may take %s, longer than the pipeline with its %s", step.ID, one, most), "raise settings.timeout_seconds, or lower that of the step")
	} else if total > most {
		s.report("SW305", at, "timeout_seconds", fmt.Sprintf("the %d attempts of %q may take %s, longer than the pipeline with its %s", n, step.ID, total, most),
			"raise settings.timeout_seconds, or lower the step's timeout or attempts")
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// heavy are the actions of which each takes a process, a job or an installation. (Requests have limits by host.)
var heavy = []string{"util.exec", "external.git.run", "external.k8s.job", "external.helm.install", "external.helm.uninstall"}

// loop reports a for_each that overloads a service, or whose iterations overwrite each other's results.
func (s *scene) loop(at spot) {
	step := s.step(at)
	if step.ForEach == nil {
		return
	}
	if step.ForEach.MaxConcurrency == 0 && s.def.Settings.MaxParallelSteps == 0 && s.outside(at) && s.starts(step) {
		s.report("SW306", at, "for_each", fmt.Sprintf("whoever starts the pipeline decides how much of %q runs at once", step.ID), "write for_each: {max_concurrency: …}, or settings: {max_parallel_steps: …}")
	}
}

// outside reports whether the elements of a loop are a parameter, which a trigger may fill.
func (s *scene) outside(at spot) bool {
	for i := range s.texts {
		t := &s.texts[i]
		if t.at == at && t.Site == definition.InLoop {
			return slices.ContainsFunc(t.refs, func(ref expr.Ref) bool { return ref.Path[0] == "params" && !s.handler(at) })
		}
	}
	return false
}

// starts reports whether a step, or one inside of it, starts something heavy.
func (s *scene) starts(step *definition.Step) bool {
	return step.Pipeline != "" || s.is(step, heavy...) || slices.ContainsFunc(step.Steps, func(inner definition.Step) bool { return s.starts(&inner) })
}

// redirect finds the file that a line for the shell writes.
var redirect = regexp.MustCompile(`(?:^|[^0-9&>-])(?:>|\btee\s+|\s-o\s+)\s*([A-Za-z0-9_./-]+)`)

// target is a place that a step writes to.
type target struct {
	at    spot
	field string // its parameter
	name  string // for messages
}

// targets are the places that a step writes to, by what is the same for the same place.
func (s *scene) targets(at spot) map[string]target {
	step, about := s.step(at), s.action(s.step(at))
	if about == nil || step.Action == "" {
		return nil
	}
	out := map[string]target{}
	for _, together := range about.Places {
		names := strings.Split(together, "+")
		key, shown := "", ""
		for _, name := range names {
			text, _ := step.Params[name].(string)
			key += "\x00" + text
			shown = cmp.Or(text, shown)
		}
		if first, _ := step.Params[names[len(names)-1]].(string); first != "" {
			if len(names) == 1 {
				key = file(first)
			}
			out[key] = target{at, "params/" + names[len(names)-1], shown}
		}
	}
	if about.Name == "util.exec" {
		for _, m := range redirect.FindAllStringSubmatch(commandOf(step), 20) {
			if name := m[1]; !strings.HasPrefix(name, "/dev/") && strings.Trim(name, "./-") != "" {
				out[file(name)] = target{at, "params/command", name}
			}
		}
	}
	return out
}

func file(name string) string { return "file\x00" + path.Clean(name) }

// maxWriters bounds the steps with one place that are compared with each other.
const maxWriters = 50

// races reports steps that write to one place in no order, and loops whose iterations do.
func (s *scene) races() {
	writers := map[string][]target{}
	for l := range s.lists {
		for i := range s.lists[l].Steps {
			at := spot{l, i}
			if s.step(at).Pos.Line == 0 {
				continue
			}
			targets := s.targets(at)
			for _, key := range sorted(targets) {
				w := targets[key]
				s.overwritten(w, key)
				s.race(w, writers[key])
				if len(writers[key]) < maxWriters {
					writers[key] = append(writers[key], w)
				}
			}
		}
	}
}

func sorted(m map[string]target) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// race reports the first step that writes to the place at the same time.
func (s *scene) race(w target, others []target) {
	for _, other := range others {
		if s.ordered(w.at, other.at) || s.chosen(w.at) && s.chosen(other.at) {
			continue
		}
		a, b := s.step(other.at), s.step(w.at)
		s.report("SW301", w.at, w.field, fmt.Sprintf("%q and %q may write to %s at the same time", a.ID, b.ID, w.name),
			fmt.Sprintf("add %s to depends_on of %s, or write to different places", a.ID, b.ID))
		return
	}
}

// chosen reports whether a step, or a group around it, runs in some executions only.
func (s *scene) chosen(at spot) bool {
	return slices.ContainsFunc(s.around(at), func(at spot) bool { return s.step(at).Condition != "" || s.step(at).TriggerRule != "" })
}

// overwritten reports a place in a loop that is the same in all iterations.
func (s *scene) overwritten(w target, key string) {
	for _, at := range s.around(w.at) {
		loop := s.step(at)
		if loop.ForEach == nil || loop.ForEach.MaxConcurrency == 1 {
			continue
		}
		if s.varies(w, key) {
			return
		}
		s.report("SW302", w.at, w.field, fmt.Sprintf("all iterations of %q write to %s", loop.ID, w.name), "put {{ item }} or {{ index }} into it")
		return
	}
}

// varies reports whether a template of the place may differ between iterations.
func (s *scene) varies(w target, key string) bool {
	if !spec.Templated(key) {
		return false
	}
	for i := range s.texts {
		t := &s.texts[i]
		if t.at != w.at || !strings.HasPrefix(t.At, "params/") {
			continue
		}
		for _, ref := range t.refs {
			if ref.Path[0] != "params" && ref.Path[0] != "execution" && ref.Path[0] != "secrets" {
				return true
			}
		}
	}
	return false
}
