package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/api/columns"
)

// folded is the changes of an execution, folded as a program does.
type folded struct {
	status, attempt, start, duration []uint32
}

// fold applies the changes up to a version to the states before all of them.
func fold(c *columns.Table, version uint32) folded {
	f := folded{c.Column("at_status"), c.Column("at_attempt"), c.Column("at_start"), c.Column("at_duration")}
	index, versions := c.Column("index"), c.Column("version")
	status, attempt, start, duration := c.Column("status"), c.Column("attempt"), c.Column("start"), c.Column("duration")
	for e := range index {
		if versions[e] > version {
			break
		}
		i := index[e]
		f.status[i], f.attempt[i], f.start[i], f.duration[i] = status[e], attempt[e], start[e], duration[e]
	}
	return f
}

// sameAsField compares every version of an execution: changes, folded, are what the columns of that version are.
func sameAsField(t *testing.T, c *client.Client, id string) {
	t.Helper()
	of := api.ExecutionPath{ID: id}
	changes, err := c.Changes(t.Context(), api.GetChanges{ExecutionPath: of})
	good(t, err)
	if changes.Rows == 0 || changes.Rows != changes.Total {
		t.Fatalf("%d of %d changes", changes.Rows, changes.Total)
	}
	for v := int64(1); v <= changes.Version; v++ {
		want, err := c.Field(t.Context(), api.GetField{ExecutionPath: of, Moment: api.Moment{Version: v}})
		good(t, err)
		got := fold(changes, uint32(v))
		status, attempt, start, duration := want.Column("status"), want.Column("attempt"), want.Column("start"), want.Column("duration")
		for i := range got.status {
			if i >= len(status) {
				if changes.States[got.status[i]] != "absent" {
					t.Errorf("version %d: step %d is %s, the columns do not have it", v, i, changes.States[got.status[i]])
				}
				continue
			}
			a, b := fmt.Sprint(changes.States[got.status[i]], got.attempt[i], got.start[i], got.duration[i]), fmt.Sprint(want.States[status[i]], attempt[i], start[i], duration[i])
			if a != b {
				t.Fatalf("version %d: step %d is %s, in the columns %s", v, i, a, b)
			}
		}
	}
}

func TestChangesAreTheFieldOfEveryVersion(t *testing.T) {
	r := newRig(t)
	x := r.finished(shapes)
	sameAsField(t, r.client("viewer"), x.ID)
	// A restart takes steps back, and the rest of them begin again.
	r.do("operator", "POST", "/api/v1/executions/"+x.ID+"/restart", map[string]any{"step_id": "group"}).is(http.StatusOK)
	r.until("it has ended again", func() bool {
		now, err := r.client("viewer").Execution(t.Context(), x.ID)
		return err == nil && !now.Completed.IsZero() && now.Completed != x.Completed
	})
	sameAsField(t, r.client("viewer"), x.ID)
}

func TestChangesInParts(t *testing.T) {
	r := newRig(t)
	x := r.finished(shapes)
	c, of := r.client("viewer"), api.ExecutionPath{ID: x.ID}
	all, err := c.Changes(t.Context(), api.GetChanges{ExecutionPath: of})
	good(t, err)
	at := all.At // milliseconds since 1970, of each commit
	for _, dt := range all.Column("dt") {
		at += int64(dt)
	}
	if len(all.Column("gap")) != 0 || all.Began != x.Started.UnixMilli() || at < all.Began || at > x.Completed.UnixMilli()+1 {
		t.Errorf("from %d to %d with gaps %v, the execution ended %d", all.At, at, all.Column("gap"), x.Completed.UnixMilli())
	}
	var rows int
	for from := 0; from < all.Total; from += 10 {
		part, err := c.Changes(t.Context(), api.GetChanges{ExecutionPath: of, From: from, To: from + 10})
		good(t, err)
		for k, i := range part.Column("index") {
			if all.Column("index")[from+k] != i || all.Column("version")[from+k] != part.Column("version")[k] {
				t.Fatalf("change %d differs", from+k)
			}
		}
		if (part.Column("at_status") != nil) != (from == 0) || part.From != from {
			t.Errorf("from %d: %+v", from, part.Header)
		}
		rows += part.Rows
	}
	beyond, err := c.Changes(t.Context(), api.GetChanges{ExecutionPath: of, From: 1 << 20})
	good(t, err)
	if rows != all.Total || beyond.Rows != 0 || beyond.Total != all.Total {
		t.Errorf("%d rows in parts, %d beyond, of %d", rows, beyond.Rows, all.Total)
	}
	path := "/api/v1/executions/" + x.ID + "/events.columns"
	got := r.do("viewer", "GET", path, nil, "Accept-Encoding", "gzip").is(200)
	if again := r.do("viewer", "GET", path, nil, "If-None-Match", got.header.Get("ETag")); got.header.Get("Content-Encoding") != "gzip" || again.status != http.StatusNotModified {
		t.Errorf("%v, then %d", got.header, again.status)
	}
	r.do("viewer", "GET", "/api/v1/executions/00000000-0000-0000-0000-000000000000/events.columns", nil).is(404)
}
