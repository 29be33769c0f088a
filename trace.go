package stepwell

import (
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"strings"
)

// SpanID is the id of an attempt's span in the trace of its execution, never zero. It derives from the log alone, so
// that a span made later has the id that was sent with the attempt's calls. Started is in µs.
func SpanID(execution string, idx int32, attempt int, started int64) (id [8]byte) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(execution + "/" + strconv.Itoa(int(idx)) + "/" + strconv.Itoa(attempt) + "/" + strconv.FormatInt(started, 10))) // it never fails
	h.Sum(id[:0])
	id[7] |= 1
	return id
}

// Traceparent is the W3C trace context of an attempt: its execution is the trace, its span the parent. It is empty if
// the execution's id is no UUID.
func Traceparent(execution string, idx int32, attempt int, started int64) string {
	trace := strings.ReplaceAll(strings.ToLower(execution), "-", "")
	if raw, err := hex.DecodeString(trace); err != nil || len(raw) != 16 || strings.Trim(trace, "0") == "" {
		return ""
	}
	id := SpanID(execution, idx, attempt, started)
	return "00-" + trace + "-" + hex.EncodeToString(id[:]) + "-01"
}
