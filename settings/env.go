package settings

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/view"
)

// platformNames are variables of the platform that Stepwell comes from (budpipeline §11), and what they are
// called here. A name of our own counts more.
var platformNames = map[string]string{
	"SERVICE_NAME":                   "STEPWELL_TELEMETRY_SERVICE_NAME",
	"LOG_LEVEL":                      "STEPWELL_LOG_LEVEL",
	"WORKFLOW_DEFAULT_TIMEOUT":       "STEPWELL_DEFAULTS_TIMEOUT_SECONDS",
	"WORKFLOW_MAX_PARALLEL_STEPS":    "STEPWELL_DEFAULTS_MAX_PARALLEL_STEPS",
	"WORKFLOW_RETRY_MAX_ATTEMPTS":    "STEPWELL_DEFAULTS_RETRY_MAX_ATTEMPTS",
	"WORKFLOW_RETRY_BACKOFF_SECONDS": "STEPWELL_DEFAULTS_RETRY_BACKOFF_SECONDS",
	"SCHEDULER_MAX_CONCURRENT_JOBS":  "STEPWELL_SERVER_LIMITS_EXECUTIONS",
	"REDIS_STATE_DB":                 "STEPWELL_STATE_DB",
	"OTEL_EXPORTER_OTLP_ENDPOINT":    "STEPWELL_TELEMETRY_OTLP_ENDPOINT",
	"OTEL_SERVICE_NAME":              "STEPWELL_TELEMETRY_SERVICE_NAME",
}

// ownNames are shorter names for what is said most often.
var ownNames = map[string]string{
	"STEPWELL_LISTEN":   "STEPWELL_SERVER_LISTEN",
	"STEPWELL_BASE_URL": "STEPWELL_SERVER_BASE_URL",
}

// Overlay puts the environment's variables over what the settings file said.
func (s *Serving) Overlay(lookup func(string) (string, bool), environ []string) error {
	vars, from := map[string]string{}, map[string]string{}
	for _, names := range []map[string]string{platformNames, ownNames} {
		for name, ours := range names {
			if v, ok := lookup(name); ok && v != "" && (from[ours] == "" || name < from[ours]) {
				vars[ours], from[ours] = v, name
			}
		}
	}
	for _, line := range environ {
		if name, v, _ := strings.Cut(line, "="); strings.HasPrefix(name, "STEPWELL_") && v != "" && ownNames[name] == "" {
			vars[name], from[name] = v, name
		}
	}
	if err := s.port(lookup, vars, from); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if err := s.set(name, vars[name], from[name]); err != nil {
			return err
		}
	}
	return nil
}

// servingLeaves are the settings of a server by the names of their variables; the policy is in the file only.
var servingLeaves = sync.OnceValue(func() map[string]spec.Leaf {
	leaves := map[string]spec.Leaf{}
	for _, l := range servingShape().Leaves() {
		if l.Path[0] != "policy" {
			leaves["STEPWELL_"+strings.ToUpper(strings.Join(l.Path, "_"))] = l
		}
	}
	return leaves
})

// otherVariables have a meaning without being settings of a server: for the commands, and those that a step's command gets,
// which may be this program.
var otherVariables = []string{"STEPWELL_SERVER", "STEPWELL_API_KEY", "STEPWELL_SECRETS_KEY",
	"STEPWELL_OUTPUT", "STEPWELL_EXECUTION", "STEPWELL_STEP", "STEPWELL_ATTEMPT", "STEPWELL_IDEMPOTENCY_KEY"}

// testVariables begins the names of what is said to Stepwell's own tests.
const testVariables = "STEPWELL_TEST_"

// WarnOfVariables tells of variables that look like Stepwell's and have no effect. A server refuses those that it can tell
// to be meant for it.
func WarnOfVariables(w io.Writer, environ []string) {
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, "STEPWELL_") || strings.HasPrefix(name, testVariables) || value == "" {
			continue
		}
		known := variables()
		if slices.Contains(known, name) {
			continue
		}
		hint := cmp.Or(spec.DidYouMean(name, known), "docs/server.md lists the settings")
		fmt.Fprintf(w, "warning: unknown variable %s, which has no effect; %s\n", view.Printable(name), hint)
	}
}

// Variables are the names of all that have a meaning.
func Variables() []string { return slices.Clone(variables()) }

var variables = sync.OnceValue(func() []string {
	known := slices.Concat(slices.Sorted(maps.Keys(servingLeaves())), slices.Sorted(maps.Keys(ownNames)), otherVariables)
	for _, name := range Flags {
		known = append(known, "STEPWELL_"+strings.ToUpper(name))
	}
	return known
})

// set reads one variable as if its value stood in the file.
func (s *Serving) set(name, value, from string) error {
	if leaf, ok := servingLeaves()[name]; ok {
		r := &spec.Report{}
		(&spec.Decoder{Report: r}).Struct(spec.NodeAt(leaf.Path, value, leaf.Type == spec.Array), "", servingShape(), s, nil)
		return firstError(from, "docs/server.md lists the settings", r)
	}
	if name == "STEPWELL_SECRETS_KEY" { // in the environment only: see Serving.AddTo
		return nil
	}
	section, _, _ := strings.Cut(strings.TrimPrefix(name, "STEPWELL_"), "_")
	for known := range servingLeaves() {
		if name != "STEPWELL_"+section && strings.HasPrefix(known, "STEPWELL_"+section+"_") {
			known := slices.Sorted(maps.Keys(servingLeaves()))
			return stepwell.Invalid(cmp.Or(spec.DidYouMean(name, known), "the keys are "+strings.Join(known, ", ")), "unknown variable %s", from)
		}
	}
	return nil // of another part
}

// port takes SERVICE_PORT, which says nothing about the address, unless ours says where to listen.
func (s *Serving) port(lookup func(string) (string, bool), vars, from map[string]string) error {
	port, ok := lookup("SERVICE_PORT")
	if !ok || port == "" || vars["STEPWELL_SERVER_LISTEN"] != "" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.Server.Listen)
	if err != nil {
		return stepwell.Invalid("write it like 127.0.0.1:8010", "server.listen: %q is not an address", s.Server.Listen)
	}
	vars["STEPWELL_SERVER_LISTEN"], from["STEPWELL_SERVER_LISTEN"] = net.JoinHostPort(host, port), "SERVICE_PORT"
	return nil
}
