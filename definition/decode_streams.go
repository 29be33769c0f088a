package definition

// streams reads settings.streams (docs/semantics §6).
func (d *decoder) streams(e entry, s *Streams) {
	if e.value.isNull() {
		return
	}
	const path = "settings.streams"
	d.fields(e.value, path, &streamsKeys, func(e entry) {
		switch e.key {
		case "ordered":
			s.Unordered = !e.value.isNull() && !d.boolean(e, path)
		case "workers":
			s.Workers = d.integer(e, path, wholeBounds(1, 1024))
		case "batch_size":
			s.BatchSize = d.integer(e, path, wholeBounds(1, 65536))
		case "max_failures":
			var loop ForEach // the same form as in a loop
			d.loopKey(e, path, &loop)
			s.MaxFailures = loop.MaxFailures
		case "strict":
			s.Strict = d.boolean(e, path)
		case "checkpoint":
			s.NoCheckpoint = !e.value.isNull() && !d.boolean(e, path)
		case "checkpoint_interval_seconds":
			s.CheckpointInterval = d.number(e, path, bounds{0, 3600, true, " (one hour)"})
		}
	})
}

// requests reads default_concurrency, and processing of stac-manager's older form.
func (d *decoder) requests(e entry, path string, r *Requests) {
	if e.value.isNull() {
		return
	}
	path = member(path, e.key)
	d.fields(e.value, path, &requestsKeys, func(e entry) {
		switch e.key {
		case "concurrency":
			r.Concurrency = d.integer(e, path, wholeBounds(1, 1000))
		case "rate_limit":
			r.RateLimit = d.number(e, path, bounds{0, 1e6, true, " requests per second"})
		case "retry_max_attempts":
			r.RetryMaxAttempts = d.integer(e, path, wholeBounds(0, 100))
		case "retry_backoff_base":
			r.RetryBackoffBase = d.number(e, path, bounds{1, 3600, false, ""})
		}
	})
}

// secrets checks input_secrets; Parse has read the file already, before ${…} was put in.
func (d *decoder) secrets(e entry, path string) {
	if e.value.isNull() {
		return
	}
	path = member(path, e.key)
	d.fields(e.value, path, &secretsKeys, func(e entry) { d.text(e, path, 4096) })
}
