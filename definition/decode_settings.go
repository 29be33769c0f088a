package definition

import "strings"

func (d *decoder) settings(n *node, p *places) Settings {
	var s Settings
	d.fields(n, "settings", &settingsKeys, func(e entry) {
		p.record(below("settings", e.key), e.value, e.at())
		switch e.key {
		case "timeout_seconds":
			s.TimeoutSeconds = d.number(e, "settings", timeoutBounds)
		case "fail_fast":
			s.FailFast = d.failFast(e)
		case "max_parallel_steps":
			s.MaxParallelSteps = d.integer(e, "settings", parallel)
		case "retry_policy":
			s.RetryPolicy = d.retry(e, "settings")
		case "sequential":
			s.Sequential = d.boolean(e, "settings")
		case "concurrency":
			s.Concurrency = d.concurrency(e, p)
		case "sla":
			s.SLA = d.sla(e, p)
		case "priority":
			s.Priority = d.integer(e, "settings", wholeBounds(-1000, 1000))
		case "logging":
			s.LogLevel = d.logging(e)
		case "output_failures":
			s.OutputFailures = d.text(e, "settings", 4096)
		case "output_summary":
			s.OutputSummary = d.text(e, "settings", 4096)
		case "streams":
			d.streams(e, &s.Streams)
		case "default_concurrency":
			d.requests(e, "settings", &s.Requests)
		case "resume_from_checkpoint":
			s.Streams.NoResume = !e.value.isNull() && !d.boolean(e, "settings")
		case "input_secrets":
			d.secrets(e, "settings")
		}
	})
	return s
}

func (d *decoder) failFast(e entry) FailFast {
	n := e.value
	if n.kind == scalarKind && n.literal && !n.filled {
		return FailFast(d.choice(e, "settings", string(FailFastOff), string(FailFastDrain), string(FailFastCancel)))
	}
	if n.kind == scalarKind && (n.text == "cancel" || n.text == "drain" || n.text == "off") {
		return FailFast(n.text)
	}
	if n.isNull() {
		return ""
	}
	before := len(d.found)
	fast := d.boolean(e, "settings")
	if len(d.found) > before {
		last := &d.found[len(d.found)-1]
		last.Message = strings.Replace(last.Message, "true or false", "true, false or cancel", 1)
		return ""
	}
	if fast {
		return FailFastDrain
	}
	return FailFastOff
}

// retry reads a retry policy (budpipeline §3.2). Its numbers are fixed before the run starts, so none
// of them can be a template.
func (d *decoder) retry(e entry, path string) *Retry {
	if e.value.isNull() {
		return nil
	}
	path = member(path, e.key)
	r := &Retry{}
	d.fields(e.value, path, &retryKeys, func(e entry) {
		switch e.key {
		case "max_attempts":
			r.MaxAttempts = d.integer(e, path, wholeBounds(1, 100))
		case "backoff_seconds":
			r.BackoffSeconds = d.orNone(e, path, bounds{0, oneYear, false, ""})
		case "backoff_multiplier":
			r.BackoffMultiplier = d.number(e, path, bounds{1, 100, false, ""})
		case "max_backoff_seconds":
			r.MaxBackoffSeconds = d.number(e, path, bounds{0, oneYear, true, ""})
		case "jitter":
			r.Jitter = d.orNone(e, path, bounds{0, 1, false, ""})
		}
	})
	if r.MaxBackoffSeconds > 0 && r.BackoffSeconds > r.MaxBackoffSeconds {
		d.warn(e.pos, path, "backoff_seconds is longer than max_backoff_seconds", "every pause will be max_backoff_seconds")
	}
	return r
}

// nextToNothing stands for zero: a Retry's zero says that nothing was given, and one that was is meant.
const nextToNothing = 1e-6

// orNone is number, with a zero that was written as nextToNothing.
func (d *decoder) orNone(e entry, path string, b bounds) float64 {
	before := len(d.found) + d.dropped
	v := d.number(e, path, b)
	if v == 0 && !e.value.isNull() && len(d.found)+d.dropped == before {
		return nextToNothing
	}
	return v
}

func (d *decoder) concurrency(e entry, p *places) *Concurrency {
	if e.value.isNull() {
		return nil
	}
	const path = "settings.concurrency"
	c := &Concurrency{}
	d.fields(e.value, path, &concurrencyKeys, func(e entry) {
		p.record("settings/concurrency/"+e.key, e.value, e.at())
		switch e.key {
		case "key":
			c.Key = d.text(e, path, 1000)
		case "limit":
			c.Limit = d.integer(e, path, parallel)
		case "on_conflict":
			c.OnConflict = d.choice(e, path, "queue", "skip", "cancel_running")
		}
	})
	if e.value.kind == mapKind && e.value.lookup("key").isNull() {
		d.fail(e.pos, path, "concurrency needs a key", `executions with the same key share the limit: key: "{{ params.cluster_id }}"`)
	}
	return c
}

// sla reads how long an execution should take.
func (d *decoder) sla(e entry, p *places) *SLA {
	if e.value.isNull() {
		return nil
	}
	const path = "settings.sla"
	s := &SLA{}
	d.fields(e.value, path, &slaKeys, func(e entry) {
		p.record("settings/sla/"+e.key, e.value, e.at())
		switch e.key {
		case "expected_seconds":
			s.ExpectedSeconds = d.number(e, path, timeoutBounds)
		case "max_seconds":
			s.MaxSeconds = d.number(e, path, timeoutBounds)
		}
	})
	if s.MaxSeconds > 0 && s.ExpectedSeconds > s.MaxSeconds {
		d.fail(e.pos, path, "expected_seconds is longer than max_seconds", "max_seconds is what an execution may take at most")
	}
	return s
}

func (d *decoder) logging(e entry) (level string) {
	if e.value.isNull() {
		return ""
	}
	d.fields(e.value, "settings.logging", &loggingKeys, func(e entry) {
		level = d.logLevel(e, "settings.logging")
	})
	return level
}

// logLevel reads debug, info, warning or error in any case (stac-manager writes them in capitals).
func (d *decoder) logLevel(e entry, path string) string {
	n := e.value
	if n.kind == scalarKind {
		switch lower := strings.ToLower(n.text); lower {
		case "debug", "info", "warning", "error":
			return lower
		case "warn":
			return "warning"
		case "critical":
			return "error"
		}
	}
	return d.choice(e, path, "debug", "info", "warning", "error")
}
