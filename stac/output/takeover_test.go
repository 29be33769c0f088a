package output

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stream"
)

// left is what an execution of an earlier program has left behind: the files of the data directory and of the place,
// written here byte by byte, so that a change of the layout shows.
type left struct {
	*bench
	ledger []byte
	start  int
}

const (
	leftLedger = "00112233445566778899aabbccddeeff"
	leftToken  = "001122334455"
)

func newLeft(t *testing.T, config map[string]any, about string) *left {
	l := &left{bench: newBench(t, config)}
	l.text(leftLedger + " " + strings.ReplaceAll(about, "ROOT", filepath.Join(l.rig.Env.Dir, "out")))
	l.start = len(l.ledger)
	return l
}

func (l *left) number(n int) { l.ledger = binary.AppendUvarint(l.ledger, uint64(n)) }

func (l *left) text(s string) {
	l.number(len(s))
	l.ledger = append(l.ledger, s...)
}

// item records an item of unit 0: its key and value are hashes of collection and id, and of text and id.
func (l *left) item(it *stream.Item, node int, name, title string, size int) {
	key := xxh3.Hash128([]byte(it.Collection() + "\x00\x00" + strings.ToLower(it.ID()))).Bytes()
	value := xxh3.Hash(it.Bytes())&^(1<<24-1) | xxh3.HashString(it.ID())<<1&((1<<23-1)<<1) | 1
	l.ledger = append(append(l.ledger, 'i'), key[:]...)
	l.ledger = binary.LittleEndian.AppendUint64(l.ledger, value)
	l.number(0)
	l.number(node)
	l.number(size)
	l.text(name)
	l.text(title)
}

func (l *left) unit(state string) {
	l.ledger = append(l.ledger, 'u', 0)
	l.text(state)
}

func (l *left) node(number, parent int, dir string) {
	l.ledger = append(l.ledger, 'n', byte(number), 0, byte(parent))
	l.text(dir)
}

func (l *left) time(milliseconds int) {
	l.ledger = append(l.ledger, 't')
	l.number(milliseconds)
}

// put makes a file: of the place when its path begins with out/, else of the sink's data.
func (l *left) put(rel string, text []byte) {
	l.t.Helper()
	path := filepath.Join(l.rig.Env.Data, "output-step", rel)
	if strings.HasPrefix(rel, "out/") {
		path = l.path(rel)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// state is that of a Commit, behind which more was written that no state tells of.
func (l *left) state(more string) map[string]any {
	l.t.Helper()
	size := len(l.ledger)
	l.put("output.ledger", append(bytes.Clone(l.ledger), "i never promised"...))
	return l.decoded(fmt.Sprintf(`{"ledger":%q,"size":%d,"start":%d,"token":%q%s}`, leftLedger, size, l.start, leftToken, more))
}

func (l *left) decoded(text string) (state map[string]any) {
	l.t.Helper()
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		l.t.Fatal(err)
	}
	return state
}

// goesOn runs the sink from the state on, with the items 1 to 3 of which the state has 0 to 2.
func (l *left) goesOn(state any) {
	l.t.Helper()
	_, out := l.run(state, stacItems("s2", 1, 4)...)
	l.wantFound(stacItems("s2", 0, 4)...)
	if out["items_written"] != int64(4) || out["items_repeated"] != int64(2) {
		l.t.Errorf("written %v, repeated %v", out["items_written"], out["items_repeated"])
	}
	if f := l.rig.Failures(); len(f) > 0 {
		l.t.Errorf("failures %v", f)
	}
}

// zstd packs each text into a frame of its own, as blocks of a spool.
func (l *left) zstd(texts ...string) (out []byte) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, text := range texts {
		out = enc.EncodeAll([]byte(text), out)
	}
	return out
}

// leftRow is the row of stacItem(s2, n), as it waits in the spool of a Parquet file.
func leftRow(n int) string {
	return fmt.Sprintf(`{"id":"item-%05d","stac_version":"1.0.0","stac_extensions":[],"collection":"s2","geometry":{"type":"Point","coordinates":[%d,%d]},`+
		`"bbox":{"xmin":%d,"ymin":%d,"xmax":%d,"ymax":%d},"datetime":"2024-01-%02dT00:00:00Z","platform":"p%d","n":%d,"big":1234567890123.10,`+
		`"links":[{"rel":"license","href":"https://api.example/license"}],"assets":{"data":{"href":"https://x.example/d.tif"}}}`+"\n",
		n, n, n, n, n, n+1, n+1, n+1, n%3, n)
}

// leftParquet is an execution with two rows in a part that is full, and one in the next.
func leftParquet(t *testing.T, spool string) (*left, map[string]any) {
	l := newLeft(t, map[string]any{"format": "parquet", "base_dir": "out", "part_rows": 2}, "parquet|collection|ROOT||||2")
	full, open := l.zstd(leftRow(0), leftRow(1)), l.zstd(leftRow(2))
	l.put("table-0-1/"+spool, full)
	l.put("table-0-2/"+spool, append(bytes.Clone(open), "torn"...))
	l.time(1_700_000_000_000)
	for _, it := range stacItems("s2", 0, 3) {
		l.item(it, 0, "", "", 0)
	}
	l.unit(fmt.Sprintf(`{"id":"s2","dir":"s2","spooled":[{"number":1,"state":{"rows":2,"bytes":%d}},{"number":2,"state":{"rows":1,"bytes":%d}}],"next":2}`, len(full), len(open)))
	return l, l.state("")
}

// TestTakeoverParquet goes on with the spools of an earlier program: those of today, and of before spools were durable
// files.
func TestTakeoverParquet(t *testing.T) {
	for _, spool := range []string{".rows..part", "rows.ndjson.zst"} {
		l, state := leftParquet(t, spool)
		l.goesOn(state)
		if parts := l.files("out/s2/items"); len(parts) != 2 {
			t.Error(spool, parts)
		}
	}
}

// TestTakeoverMadePart has a part that was made just before the program died: its spool is gone, and the state does
// not know yet, nor perhaps of the next part. A made part with more rows than the state has is none of it.
func TestTakeoverMadePart(t *testing.T) {
	for name, rows := range map[string]int{"two parts": 2, "one part": 2, "more rows": 3} {
		l, state := leftParquet(t, ".rows..part")
		l.made("made-"+leftToken+"-0-1.parquet", 0, rows)
		if err := os.RemoveAll(filepath.Join(l.rig.Env.Data, "output-step", "table-0-1")); err != nil {
			t.Fatal(err)
		}
		if name == "one part" {
			l.ledger = l.ledger[:l.start]
			for _, it := range stacItems("s2", 0, 2) {
				l.item(it, 0, "", "", 0)
			}
			l.unit(`{"id":"s2","dir":"s2","spooled":[{"number":1,"state":{"rows":2,"bytes":100}}],"next":1}`)
			_, out := l.run(l.state(""), stacItems("s2", 2, 4)...)
			l.wantFound(stacItems("s2", 0, 4)...)
			if out["items_written"] != int64(4) {
				t.Error(name, out["items_written"])
			}
			continue
		}
		if name == "two parts" {
			l.goesOn(state)
		} else if _, err := l.open(state); !errors.Is(err, stream.ErrStateGone) {
			t.Error(name, err)
		}
	}
}

// made makes the Parquet file of some items in the sink's data.
func (l *left) made(name string, from, to int) {
	l.t.Helper()
	f, err := geoparquet.New(l.t.TempDir(), geoparquet.Options{})
	for n := from; n < to && err == nil; n++ {
		it := stacItem("s2", fmt.Sprintf("item-%05d", n), n)
		rebaseAll(it.Value, func(string) string { return "https://api.example/license" })
		err = f.Add(it.Value)
	}
	if err == nil {
		_, err = f.Close(l.t.Context(), filepath.Join(l.rig.Env.Data, "output-step", name), nil)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestTakeoverMoves has the journal of a program that died while it published: one part is in its place, one is not.
func TestTakeoverMoves(t *testing.T) {
	l := newLeft(t, map[string]any{"format": "parquet", "base_dir": "out", "part_rows": 2}, "parquet|collection|ROOT||||2")
	data := filepath.Join(l.rig.Env.Data, "output-step")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	spool := l.zstd(leftRow(0), leftRow(1), leftRow(2))
	l.time(1_700_000_000_000)
	for _, it := range stacItems("s2", 0, 3) {
		l.item(it, 0, "", "", 0)
	}
	l.unit(fmt.Sprintf(`{"id":"s2","dir":"s2","spooled":[{"number":1,"state":{"rows":3,"bytes":%d}}],"next":1}`, len(spool)))
	state := l.state("")
	l.made("made-"+leftToken+"-0-1.parquet", 0, 2)
	l.made("made-"+leftToken+"-0-2.parquet", 2, 3)
	first, err := os.ReadFile(filepath.Join(data, "made-"+leftToken+"-0-1.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	l.put("out/s2/items/part-00001.parquet", first)
	l.put("out/s2/items/part-00009.parquet", first)
	l.put("output.moves.json", fmt.Appendf(nil, `{"token":%q,"ledger":%d,"moves":[{"from":%q,"to":"s2/items/part-00001.parquet"},{"from":%q,"to":"s2/items/part-00002.parquet"}],"remove":["s2/items/part-00009.parquet"]}`,
		leftToken, len(l.ledger), filepath.Join(data, "made-"+leftToken+"-0-1.parquet"), filepath.Join(data, "made-"+leftToken+"-0-2.parquet")))
	_, out := l.run(state, stacItems("s2", 3, 4)...)
	l.wantFound(stacItems("s2", 0, 4)...)
	if out["items_written"] != int64(4) {
		t.Errorf("written %v", out["items_written"])
	}
}

// TestTakeoverLines goes on with the hidden file of an earlier program beside the place, and with its keys.
func TestTakeoverLines(t *testing.T) {
	l := newLeft(t, map[string]any{"format": "ndjson", "base_dir": "out"}, "")
	dest, text, keys := l.path("out/s2/items.ndjson"), []byte(nil), []byte(nil)
	for _, it := range stacItems("s2", 0, 3) {
		key := xxh3.Hash128([]byte(it.Collection() + "\x00\x01" + it.ID())).Bytes()
		it.Value = rebased(t, it.Value)
		keys = binary.LittleEndian.AppendUint64(append(keys, key[:]...), xxh3.Hash(it.Bytes()))
		text = it.AppendLine(text)
	}
	l.put("out/s2/.items.ndjson."+leftToken+".part", append(bytes.Clone(text), `{"torn`...))
	l.put(fmt.Sprintf("keys-%016x-%s", xxh3.HashString(dest), leftToken), append(keys, "torn"...))
	l.goesOn(l.decoded(fmt.Sprintf(`{"token":%q,"files":{%q:{"offset":%d,"items":3,"no":1}},"of":{%q:"s2"}}`, leftToken, dest, len(text), dest)))
}

// rebased is an item of stacItem as the sink writes it.
func rebased(t *testing.T, v *item.Value) *item.Value {
	out, err := item.Parse(bytes.ReplaceAll(v.Bytes(), []byte("../license"), []byte("https://api.example/collections/c/license")))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTakeoverTrees goes on with the files of items that an earlier program has written, and with its ledger.
func TestTakeoverTrees(t *testing.T) {
	json := newLeft(t, map[string]any{"format": "json", "base_dir": "out"}, "json|collection|ROOT|||")
	catalog := newLeft(t, map[string]any{"format": "catalog", "base_dir": "out", "split": "{properties.platform}", "max_links": 2}, "catalog|collection|ROOT||{properties.platform}|")
	relinked := strings.NewReplacer("https://api.example/collections/c/items/i", "x.json", "https://api.example/collections/c", "../collection.json")
	catalog.node(1, 0, "s2")
	for n, it := range stacItems("s2", 0, 3) {
		json.time(1_700_000_000_000)
		json.put("out/s2/items/"+it.ID()+".json", it.Bytes())
		json.item(it, 0, it.ID(), "", len(it.Bytes()))
		catalog.node(n+2, 1, fmt.Sprintf("s2/p%d", n%3))
		catalog.put(fmt.Sprintf("out/s2/p%d/%s.json", n%3, it.ID()), []byte(relinked.Replace(string(it.Bytes()))))
		catalog.item(it, n+2, it.ID(), it.ID(), len(it.Bytes()))
	}
	for _, l := range []*left{json, catalog} {
		l.unit(`{"id":"s2","dir":"s2","filled":true}`)
		l.goesOn(l.state(""))
	}
	if n := len(catalog.crawl("out", "catalog.json")); n != 4 {
		t.Errorf("the crawl finds %d items", n)
	}
}
