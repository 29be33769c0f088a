package output

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stream"
)

// apiBench is a bench that writes to a server on the loopback interface.
func apiBench(t *testing.T, s *stactest.Server, config map[string]any) *bench {
	t.Helper()
	h, err := outbound.New(outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Breaker: outbound.Breaker{Failures: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	config["format"], config["url"] = "api", s.URL
	b := newBench(t, config)
	b.module = Modules(Options{HTTP: h})[0]
	return b
}

func texts(items []*stream.Item) (out []json.RawMessage) {
	for _, it := range items {
		out = append(out, slices.Clone(it.Bytes()))
	}
	return out
}

func ids(items []*stream.Item) (out []string) {
	for _, it := range items {
		out = append(out, it.ID())
	}
	slices.Sort(out)
	return out
}

// p14 is a server as in P14: five ids are there, a batch with one of them answers 409 without saying which,
// one request is too large, one is queued.
func p14(t *testing.T) *stactest.Server {
	there := stacItems("s2", 10, 15)
	for _, it := range there {
		it.Get("properties").Set("n", stacItem("s2", "x", 1).Get("properties").Get("n").Clone())
	}
	return stactest.Start(t, stactest.Options{Items: texts(there), Partial: true,
		Faults: []stactest.Fault{{Kind: "create", Nth: 2, Status: http.StatusRequestEntityTooLarge}, {Kind: "create", Nth: 5, Status: http.StatusAccepted, Store: true}}})
}

func TestAPIUpsert(t *testing.T) {
	s := p14(t)
	b := apiBench(t, s, map[string]any{"on_conflict": "upsert", "batch_size": 8})
	items := stacItems("s2", 0, 50)
	sink := b.mustOpen(nil)
	b.write(sink, items...)
	b.commit(sink, 50)
	_, out := b.close(sink)
	if got := s.IDs("s2"); !slices.Equal(slices.Sorted(slices.Values(got)), ids(items)) {
		t.Errorf("%d items are there", len(got))
	}
	for _, it := range items[10:15] {
		if !strings.Contains(string(s.Item("s2", it.ID())), `"n":`+string(it.Get("properties").Get("n").Bytes())) {
			t.Errorf("%s was not replaced: %s", it.ID(), s.Item("s2", it.ID()))
		}
	}
	if out["items_written"] != int64(50) || out["items_queued"].(int64) == 0 || len(b.rig.Failures()) > 0 {
		t.Errorf("%v %v", out, b.rig.Failures())
	}
}

func TestAPIInsert(t *testing.T) {
	s := p14(t)
	b := apiBench(t, s, map[string]any{"on_conflict": "insert", "batch_size": 8})
	items := stacItems("s2", 0, 50)
	_, out := b.run(nil, items...)
	if got := s.IDs("s2"); len(got) != 50 {
		t.Errorf("%d items are there", len(got))
	}
	got := slices.Sorted(slices.Values(out["conflicts"].([]string)))
	if !slices.Equal(got, ids(items[10:15])) || out["items_written"] != int64(45) || len(b.rig.Refused()) != 5 {
		t.Errorf("%v, %d refused", out, len(b.rig.Refused()))
	}
	if strings.Contains(string(s.Item("s2", "item-00010")), `"n":10`) {
		t.Error("an item that was there has been replaced")
	}
}

func TestAPISkip(t *testing.T) {
	s := p14(t)
	b := apiBench(t, s, map[string]any{"on_conflict": "skip", "collection_id": "s2"})
	items := stacItems("s2", 0, 50)
	items[0].Delete("collection")
	_, out := b.run(nil, items...)
	if len(s.IDs("s2")) != 50 || out["items_written"] != int64(45) || out["items_repeated"] != int64(5) || len(b.rig.Refused()) != 0 {
		t.Errorf("%v %v", out, b.rig.Failures())
	}
}

// TestAPIResume cuts an insert off behind what the server has stored: the conflicts are its own doing.
func TestAPIResume(t *testing.T) {
	s := p14(t)
	b := apiBench(t, s, map[string]any{"on_conflict": "insert", "batch_size": 5, "concurrency": 1})
	sink := b.mustOpen(nil)
	b.write(sink, stacItems("s2", 0, 10)...)
	state := b.commit(sink, 10)
	b.write(sink, stacItems("s2", 10, 30)...) // part of it is stored, none of it is promised
	sink.Abandon()
	_, out := b.run(state, stacItems("s2", 10, 40)...)
	if len(s.IDs("s2")) != 40 || out["items_written"] != int64(25) || len(out["conflicts"].([]string)) != 5 {
		t.Errorf("%v %v", out, s.IDs("s2"))
	}
}

func TestAPIIfMatch(t *testing.T) {
	s := p14(t)
	b := apiBench(t, s, map[string]any{"on_conflict": "upsert", "if_match": true})
	_, out := b.run(nil, stacItems("s2", 8, 16)...)
	if out["items_written"] != int64(8) || len(b.rig.Failures()) > 0 {
		t.Errorf("%v %v", out, b.rig.Failures())
	}
	matched := 0
	for _, r := range s.Requests() {
		if r.Header.Get("If-Match") != "" {
			matched++
		}
	}
	if matched != 5 {
		t.Errorf("%d requests with If-Match", matched)
	}
}

// TestAPIReplace leaves in the collection what the run has given, and nothing is deleted when that is nothing.
func TestAPIReplace(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: texts(stacItems("s2", 0, 8))})
	b := apiBench(t, s, map[string]any{"write": "replace", "owns": "collection", "collection_id": "s2"})
	sink := b.mustOpen(nil)
	b.write(sink, stacItems("s2", 5, 9)...)
	state := b.commit(sink, 4)
	sink.Abandon()
	if got := s.IDs("s2"); len(got) != 9 {
		t.Errorf("too early: %q", got)
	}
	_, out := b.run(state, stacItems("s2", 9, 12)...)
	if got := s.IDs("s2"); !slices.Equal(slices.Sorted(slices.Values(got)), ids(stacItems("s2", 5, 12))) || out["items_deleted"] != int64(5) {
		t.Errorf("%q %v", got, out)
	}
	if _, _, err := b.mustOpen(nil).Close(t.Context()); stepwell.CodeOf(err) != stepwell.CodeNotReplaced || len(s.IDs("s2")) != 7 {
		t.Errorf("a run without items: %v", err)
	}
}

// TestAPIKeep gives one run items of one id, the later of them in the attempt after it was cut off: the server has the one
// that keep says, and equal ones count as one.
func TestAPIKeep(t *testing.T) {
	for _, c := range []struct {
		config map[string]any
		n      string // of item a, at the server
		failed int
		left   int64
	}{
		{map[string]any{}, "1", 2, 0},
		{map[string]any{"on_conflict": "upsert"}, "1", 2, 0},
		{map[string]any{"write": "upsert", "keep": "fail"}, "1", 2, 0},
		{map[string]any{"write": "upsert", "keep": "first"}, "1", 0, 2},
		{map[string]any{"on_conflict": "upsert", "keep": "last"}, "9", 0, 2},
		{map[string]any{"write": "replace", "owns": "collection", "keep": "last"}, "9", 0, 2},
		{map[string]any{"on_conflict": "skip"}, "1", 0, 2},
		{map[string]any{"keep": "first"}, "1", 0, 2},
	} {
		b := apiBench(t, stactest.Start(t, stactest.Options{Items: texts(stacItems("s2", 0, 1))}), c.config)
		sink := b.mustOpen(nil)
		b.write(sink, stacItem("s2", "a", 1), stacItem("s2", "b", 2), stacItem("s2", "a", 1))
		state := b.commit(sink, 3)
		sink.Abandon()
		_, out := b.run(state, stacItem("s2", "a", 7), stacItem("s2", "b", 2), stacItem("s2", "a", 9))
		b.wantServed("a", c.n)
		b.wantServed("b", "2")
		if len(b.rig.Failures()) != c.failed || out["items_left_out"] != c.left {
			t.Errorf("%v: failures %v, outputs %v", c.config, b.rig.Failures(), out)
		}
	}
	for _, bad := range []map[string]any{{"on_conflict": "skip", "keep": "last"}, {"keep": "last"}, {"on_conflict": "skip", "keep": "fail"}, {"on_conflict": "insert", "keep": "last"}} {
		bad["format"], bad["url"] = "api", "https://x.example"
		if problems := Modules(Options{})[0].Check(bad); len(problems) != 1 || stepwell.HintOf(problems[0]) == "" {
			t.Errorf("%v: %v", bad, problems)
		}
	}
}

// wantServed looks at an item of the server.
func (b *bench) wantServed(id, n string) {
	b.t.Helper()
	got, err := http.Get(b.config["url"].(string) + "/collections/s2/items/" + id)
	if err != nil {
		b.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if link := `"rel":"collection","href":"` + b.config["url"].(string) + `/collections/s2"`; !strings.Contains(string(text), link) {
		b.t.Errorf("item %s has no link to its collection: %s", id, text)
	}
	if err != nil || !strings.Contains(string(text), `"n":`+n+`,`) {
		b.t.Errorf("%v: item %s is %s, want n %s (%v)", b.config, id, text, n, err)
	}
}
