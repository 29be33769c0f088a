package item_test

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stepwell/stepwell/item"
)

// TestRealItems splits real catalogs' items to the last value and writes them from inside: the same, numbers
// as they are written.
func TestRealItems(t *testing.T) {
	data := os.Getenv("STEPWELL_SHARED_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "shared", "data")
	}
	files, err := filepath.Glob(filepath.Join(data, "items", "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no real items here: left out that they survive being split and written")
	}
	items, values := 0, 0
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			values += realItem(t, file, bytes.Clone(lines.Bytes()))
			items++
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d items of %d files, %d values", items, len(files), values)
}

func realItem(t *testing.T, file string, line []byte) int {
	v, err := item.Parse(line)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	look(v)
	if !bytes.Equal(v.Bytes(), bytes.TrimSpace(line)) {
		t.Fatalf("%s: unchanged, but another text", file)
	}
	n := v.Force()
	if !reflect.DeepEqual(plain(t, v.AppendTo(nil)), plain(t, line)) {
		t.Fatalf("%s: from inside it is %s", file, v.Bytes())
	}
	return n
}
