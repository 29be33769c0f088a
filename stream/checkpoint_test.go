package stream

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/stream/durable"
)

// FuzzReadCheckpoint: no content of a file makes the reader panic, or take more than the file can hold.
func FuzzReadCheckpoint(f *testing.F) {
	h := header{Format: checkpointFormat, Version: checkpointVersion, Config: "c"}
	raw, err := json.Marshal(h)
	if err != nil {
		f.Fatal(err)
	}
	file := durable.AppendFrame(nil, raw)
	file = append(file, appendBlock(nil, []byte(`{"end":0,"state":{"size":5},"spool":0,"keys":1,"durable":1,"cursors":[{"root":0,"seq":1,"read":1,"cursor":1}]}`), []entry{{seq: 1}})...)
	f.Add(file)
	f.Add(file[:len(file)-3])
	f.Add(append(file, 0, 0, 0))
	f.Add(durable.AppendFrame(nil, []byte("{")))
	f.Add(appendBlock(nil, []byte(`{"keys":2}`), []entry{{seq: 9}, {seq: 3}})[durable.FrameHead:])
	path := filepath.Join(f.TempDir(), "c")
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, file := range [][]byte{content, durable.AppendFrame(durable.AppendFrame(nil, raw), content)} { // as a file, and as a block
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			p, size, err := readCheckpoint(path, h, 2, never)
			if err == nil && (size > int64(len(file)) || p.keys > size/16) {
				t.Errorf("%d of %d bytes, %d keys", size, len(file), p.keys)
			}
		}
	})
}

// TestCompact: a checkpoint whose states take more than its keys is written anew and tells the same.
func TestCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c")
	h := header{Config: "c"}
	warn := func(text string) { t.Error(text) }
	c, _, err := openCheckpoint(path, h, 2, never, warn)
	if err != nil {
		t.Fatal(err)
	}
	var written [2]int64
	large, keys := strings.Repeat("x", 900_000), 0
	for i := range 60 {
		b := block{End: i % 2, Spool: int64(i), State: json.RawMessage(fmt.Sprintf(`"%d%s"`, i, large)),
			Cursors: []cursorNote{{Root: i % 3, Seq: int64(i), Read: int64(i), Cursor: json.RawMessage(fmt.Sprint(i))}}}
		if i == 30 {
			b = block{Begin: true, Open: true}
			written = [2]int64{}
		}
		b.From = written[b.End]
		written[b.End] += 2
		b.Durable = written[b.End]
		if err := c.append(b, []entry{{key: [16]byte{byte(i), byte(i >> 8), 1}, seq: int64(i)}, {refused: true}}, true); err != nil {
			t.Fatal(err)
		}
		keys++
	}
	if c.size > 2*maxWaste {
		t.Errorf("%d bytes", c.size)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	c, p, err := openCheckpoint(path, h, 2, never, warn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if p.keys != int64(keys) || p.complete || p.spool != 59 || len(p.cursors) != 3 || string(p.cursors[0].Cursor) != "57" ||
		!strings.HasPrefix(string(p.states[1]), `"59x`) || !strings.HasPrefix(string(p.states[0]), `"58x`) {
		t.Errorf("%d keys, spool %d, cursors %v", p.keys, p.spool, p.cursors)
	}
	// those of the run before count in any case, of this one those behind the cursors, of which the first stands at 57
	left := 0
	for _, n := range slices.Concat(p.bags[0].counts, p.bags[1].counts) {
		left += max(int(n)-1, 0)
	}
	if left != 32 {
		t.Errorf("%d keys are looked for", left)
	}
}

// TestKeyBag compares a bag with a map.
func TestKeyBag(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		drawn := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(r, "keys")
		key := func(b byte) [16]byte { return [16]byte{7: b & 1, 8: b} } // many at the same place
		bag, want := newKeyBag(int64(len(drawn))), map[byte]int{}
		for _, b := range drawn {
			bag.add(key(b))
			want[b]++
		}
		for _, b := range rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(r, "taken") {
			if got := bag.removeOne(key(b)); got != (want[b] > 0) {
				r.Fatalf("take(%d) = %t, %d are there", b, got, want[b])
			}
			if want[b] > 0 {
				want[b]--
			}
		}
	})
}

func TestFileName(t *testing.T) {
	long := strings.Repeat("a", 300)
	for name, want := range map[string]string{"S2_L2A-x.y": "S2_L2A-x.y", "..": "%2E.", "a/b": "a%2Fb", "": "", "-": "%2D", "ä": "%C3%A4", "%": "%25"} {
		if got := fileName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if a, b := fileName(long), fileName(long+"b"); a == b || len(a) > maxName {
		t.Errorf("%q, %q", a, b)
	}
	if entryName("") != "-" || entryName("-") == "-" || entryName("runs") == "runs" {
		t.Error("entries can be mixed up")
	}
}

// never: every run that was cut off is gone on with.
func never(*past) bool { return false }
