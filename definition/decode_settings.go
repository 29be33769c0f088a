package definition

import (
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// decoder reads nodes into the typed definition.
type decoder struct{ *spec.Decoder }

func newDecoder(r *spec.Report, lenient bool) *decoder {
	return &decoder{&spec.Decoder{Report: r, Lenient: lenient}}
}

func (d *decoder) settings(n *spec.Node) Settings {
	var s documentSettings
	d.Struct(n, "settings", settingsShape, &s, func(e spec.Entry) bool {
		switch e.Key {
		case "fail_fast":
			s.FailFast = d.failFast(e)
		case "logging":
			s.LogLevel = d.logging(e)
		case "streams":
			d.streams(e, &s.Streams)
		case "resume_from_checkpoint":
			s.Streams.NoResume = !e.Value.IsNull() && !d.Boolean(e, "settings")
		default:
			return false
		}
		return true
	})
	if e := n.Entry("retry_policy"); s.RetryPolicy != nil {
		d.checkRetry(e, "settings", s.RetryPolicy)
	}
	if e := n.Entry("concurrency"); s.Concurrency != nil && e.Value.Kind == spec.MapNode && e.Value.Lookup("key").IsNull() {
		d.Fail(e.Pos, "settings.concurrency", "concurrency needs a key", `executions with the same key share the limit: key: "{{ params.cluster_id }}"`)
	}
	if s.SLA != nil && s.SLA.MaxSeconds > 0 && s.SLA.ExpectedSeconds > s.SLA.MaxSeconds {
		d.Fail(n.Entry("sla").Pos, "settings.sla", "expected_seconds is longer than max_seconds", "max_seconds is what an execution may take at most")
	}
	return s.Settings
}

func (d *decoder) failFast(e spec.Entry) FailFast {
	n := e.Value
	if n.Kind == spec.ScalarNode && n.Literal && !n.Filled {
		return FailFast(d.Choice(e, "settings", string(FailFastOff), string(FailFastDrain), string(FailFastCancel)))
	}
	if n.Kind == spec.ScalarNode && (n.Text == "cancel" || n.Text == "drain" || n.Text == "off") {
		return FailFast(n.Text)
	}
	if n.IsNull() {
		return ""
	}
	before := len(d.Found)
	fast := d.Boolean(e, "settings")
	if len(d.Found) > before {
		last := &d.Found[len(d.Found)-1]
		last.Message = strings.Replace(last.Message, "true or false", "true, false or cancel", 1)
		return ""
	}
	if fast {
		return FailFastDrain
	}
	return FailFastOff
}

// checkRetry warns of a policy that contradicts itself.
func (d *decoder) checkRetry(e spec.Entry, path string, r *Retry) {
	if r.MaxBackoffSeconds > 0 && r.BackoffSeconds > r.MaxBackoffSeconds {
		d.Warn(e.Pos, spec.MemberPath(path, e.Key), "backoff_seconds is longer than max_backoff_seconds", "every pause will be max_backoff_seconds")
	}
}

func (d *decoder) logging(e spec.Entry) (level string) {
	if e.Value.IsNull() {
		return ""
	}
	d.Struct(e.Value, "settings.logging", loggingShape, &logging{}, func(e spec.Entry) bool {
		level = d.logLevel(e, "settings.logging")
		return true
	})
	return level
}

// logLevel reads debug, info, warning or error in any case (stac-manager writes them in capitals).
func (d *decoder) logLevel(e spec.Entry, path string) string {
	n := e.Value
	if n.Kind == spec.ScalarNode {
		switch lower := strings.ToLower(n.Text); lower {
		case "debug", "info", "warning", "error":
			return lower
		case "warn":
			return "warning"
		case "critical":
			return "error"
		}
	}
	return d.Choice(e, path, "debug", "info", "warning", "error")
}

// streams reads settings.streams (docs/semantics §6).
func (d *decoder) streams(e spec.Entry, s *Streams) {
	if e.Value.IsNull() {
		return
	}
	const path = "settings.streams"
	d.Struct(e.Value, path, streamsShape, s, func(e spec.Entry) bool {
		if e.Key == "max_failures" {
			s.MaxFailures = d.maxFailures(e, path)
		}
		return e.Key == "max_failures"
	})
}
