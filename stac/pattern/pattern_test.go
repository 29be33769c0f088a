package pattern

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

const sample = `{"type":"Feature","id":"a","collection":"c","properties":{"eo:cloud_cover":12.50,"p":null,"l":[1,{"x":"deep"}],"flag":true},"assets":{}}`

func parse(t testing.TB, text string) *item.Value {
	t.Helper()
	v, err := item.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestExpand(t *testing.T) {
	it := parse(t, sample)
	for _, c := range []struct{ text, asset, want, fault string }{
		{"", "", "", ""},
		{"plain", "", "plain", ""},
		{"{item_id}", "", "a", ""},
		{"s3://b/{collection_id}/{item_id}/{asset_key}.tif", "B4", "s3://b/c/a/B4.tif", ""},
		{"{properties.eo:cloud_cover} %", "", "12.50 %", ""},
		{"{properties.l[1].x}", "", "deep", ""},
		{"{properties.flag}!", "", "true!", ""},
		{"{{{item_id}}} }}{{", "", "{a} }{", ""},
		{"tile/{{z}}", "", "tile/{z}", ""},
		{"{asset_key}", "", "", "has no value for {asset_key}"},
		{"{properties.p}", "", "", "has no value"},
		{"{properties.none}", "", "", "has no value"},
		{"x{properties.l}", "", "", "is a list"},
	} {
		p, err := Parse(c.text)
		if err != nil {
			t.Fatal(c.text, err)
		}
		got, err := p.Expand(it, c.asset)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%q: error %v, want %q", c.text, err, c.fault)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.text, got, err, c.want)
		}
	}
	p, _ := Parse("{collection_id}")
	if got, err := p.Expand(parse(t, `{"type":"Collection","id":"mine"}`), ""); err != nil || got != "mine" {
		t.Errorf("a collection's own id: %q, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"{", "}", "a}b", "{item_id", "{id}", "{}", "{properties.}", "{properties.*}", "{assets.x}", "{ item_id }"} {
		_, err := Parse(text)
		if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(stepwell.HintOf(err), "{asset_key}") {
			t.Errorf("%q: %v, hint %q", text, err, stepwell.HintOf(err))
		}
	}
}

func TestTree(t *testing.T) {
	tree, err := ParseTree(map[string]any{"href": "x/{asset_key}", "n": 1.5, "list": []any{"{properties.eo:cloud_cover}", nil, true}})
	if err != nil {
		t.Fatal(err)
	}
	it := parse(t, sample)
	for range 2 { // expanding leaves nothing behind
		v, err := tree.Expand(it, "B4")
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"href":"x/B4","list":[12.50,null,true],"n":1.5}`; string(v.Bytes()) != want {
			t.Errorf("got %s, want %s", v.Bytes(), want)
		}
		v.Set("n", item.OfText("changed"))
	}
	if !tree.UsesItem() {
		t.Error("{properties.x} was not seen")
	}
	if !tree.UsesAsset() {
		t.Error("{asset_key} was not seen")
	}
	if _, err := ParseTree([]any{"{nope}"}); err == nil {
		t.Error("an unknown name inside was taken")
	}
	var deep any = "x"
	for range MaxDepth {
		deep = []any{deep}
	}
	if _, err := ParseTree(deep); err == nil {
		t.Error("a value too deep was taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a{item_id}{{}}")
	f.Add("{properties.a[0].\"b.c\"}")
	it, _ := item.Parse([]byte(sample))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		if p.Literal() {
			plain, err := p.Expand(it, "")
			if err != nil || strings.NewReplacer("{", "{{", "}", "}}").Replace(plain) != text {
				t.Errorf("%q expands to %q, %v", text, plain, err)
			}
		}
		_, _ = p.Expand(it, "x") // must not crash
	})
}
