package spec_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

type writer struct {
	Path   string        `json:"path" required:"true" doc:"The file to write."`
	Format string        `json:"format" enum:"json,csv" default:"json" doc:"How rows are written."`
	Rows   int           `json:"rows" minimum:"1" maximum:"10000" default:"500" doc:"Rows in one file."`
	Every  time.Duration `json:"every" minimum:"1" doc:"Time between two files."`
	When   string        `json:"when" spec:"raw" doc:"Expression that picks rows."`
	Auth   struct {
		Token string `json:"token" writeOnly:"true" doc:"A bearer token."`
	} `json:"auth" doc:"Credentials."`
}

// A module's configuration is one struct: its fields are published, values are checked and bound by it.
func ExampleFieldsOf() {
	fields := spec.FieldsOf[writer]()
	for _, f := range fields {
		fmt.Println(f.Name, f.Type, f.Doc)
	}
	values := map[string]any{"path": "out.json", "every": "90s", "fromat": "csv"}
	for _, m := range spec.Check(fields, false, values) {
		fmt.Println(m)
	}
	delete(values, "fromat")
	var c writer
	checker, err := spec.Compile(fields, false)
	if err == nil {
		err = spec.Bind(checker.Apply(values), &c)
	}
	fmt.Println(c.Path, c.Format, c.Rows, c.Every, err)
	// Output:
	// path string The file to write.
	// format string How rows are written.
	// rows integer Rows in one file.
	// every duration Time between two files.
	// when string Expression that picks rows.
	// auth object Credentials.
	// fromat is unknown (did you mean format?)
	// out.json json 500 1m30s <nil>
}

type upper string

func (u *upper) UnmarshalText(text []byte) error {
	if len(text) == 0 || text[0] < 'A' || text[0] > 'Z' {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%q has no capital", text), Hint: "begin with one"}
	}
	*u = upper(text)
	return nil
}

type short bool

type shared struct {
	Keep string `json:"keep" enum:"first,last" doc:"Which stays."`
}

type every struct {
	Name string `json:"name,omitempty" key:"title"`
	shared
	Ratio  float64           `json:"ratio" exclusiveMinimum:"0" maximum:"1" default:"0.5"`
	Flag   *bool             `json:"flag" default:"true"`
	Tags   []string          `json:"tags" minItems:"1" maxLength:"3" enum:"a,bcd" default:"[\"a\"]"`
	Any    any               `json:"any" spec:"bare" names:"item,asset"`
	List   []any             `json:"list"`
	Map    map[string]string `json:"map"`
	Raw    json.RawMessage   `json:"raw"`
	At     time.Time         `json:"at"`
	Upper  upper             `json:"upper"`
	Short  short             `json:"short"`
	Wait   any               `json:"wait" spec:"duration"`
	Small  int8              `json:"small"`
	Byte   uint8             `json:"byte"`
	Inner  []every           `json:"inner"`
	Hidden int               `json:"-"`
	own    int
}

func ptr(n float64) *float64 { return &n }

func TestFieldsOf(t *testing.T) {
	text := &spec.Field{Type: spec.String, Enum: []string{"a", "bcd"}, Max: ptr(3)}
	want := []spec.Field{
		{Name: "title", Type: spec.String},
		{Name: "keep", Type: spec.String, Enum: []string{"first", "last"}, Doc: "Which stays."},
		{Name: "ratio", Type: spec.Number, Min: ptr(0), Max: ptr(1), Above: true, Default: 0.5},
		{Name: "flag", Type: spec.Boolean, Default: true},
		{Name: "tags", Type: spec.Array, Items: text, Min: ptr(1), Default: []any{"a"}},
		{Name: "any", Type: spec.Any, Raw: true, Bare: true, Names: []string{"item", "asset"}},
		{Name: "list", Type: spec.Array},
		{Name: "map", Type: spec.Object},
		{Name: "raw", Type: spec.Any},
		{Name: "at", Type: spec.Time},
		{Name: "upper", Type: spec.String},
		{Name: "short", Type: spec.Boolean},
		{Name: "wait", Type: spec.Duration},
		{Name: "small", Type: spec.Integer},
		{Name: "byte", Type: spec.Integer},
		{Name: "inner", Type: spec.Array, Items: &spec.Field{Type: spec.Object}},
	}
	if diff := cmp.Diff(want, spec.FieldsOf[every]()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := spec.Compile(spec.FieldsOf[every](), false); err != nil {
		t.Error(err)
	}
}

func TestFieldsOfPanicsOnBadTags(t *testing.T) {
	for name, f := range map[string]func(){
		"word": func() {
			spec.FieldsOf[struct {
				A int `json:"a" spec:"rwa"`
			}]()
		},
		"bound": func() {
			spec.FieldsOf[struct {
				A int `json:"a" minimum:"x"`
			}]()
		},
		"default": func() {
			spec.FieldsOf[struct {
				A int `json:"a" default:"x"`
			}]()
		},
		"type": func() {
			spec.FieldsOf[struct {
				A func() `json:"a"`
			}]()
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestBind(t *testing.T) {
	yes := true
	got := every{Hidden: 1, own: 2, Byte: 9}
	err := spec.Bind(map[string]any{"title": "n", "keep": "last", "ratio": int64(1), "flag": true, "tags": []string{"a"}, "any": 1.5, "list": []any{1.0, nil},
		"map": map[string]any{"k": "v"}, "raw": map[string]any{"a": 1.0}, "at": "2026-01-31T12:00:00Z", "upper": "Abc", "short": true, "small": 3.0, "byte": nil,
		"inner": []any{map[string]any{"title": "below"}}, "unknown": 1}, &got)
	if err != nil {
		t.Fatal(err)
	}
	want := every{Name: "n", shared: shared{"last"}, Ratio: 1, Flag: &yes, Tags: []string{"a"}, Any: 1.5, List: []any{1.0, nil}, Map: map[string]string{"k": "v"},
		Raw: json.RawMessage(`{"a":1}`), At: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Upper: "Abc", Short: true, Small: 3, Byte: 9, Inner: []every{{Name: "below"}}, Hidden: 1, own: 2}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(every{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for key, c := range map[string]struct {
		v    any
		want string
	}{
		"small": {int64(200), "small must be a whole number, not 200"},
		"byte":  {int64(-1), "byte must be a whole number, not -1"},
		"title": {true, "title must be a text, not true (quote it)"},
		"inner": {[]any{map[string]any{"ratio": "x"}}, `inner[0].ratio must be a number, not "x"`},
		"map":   {map[string]any{"k": 1.0}, "map.k must be a text, not 1 (quote it)"},
		"upper": {"abc", `upper: "abc" has no capital (begin with one)`},
		"tags":  {"a", `tags must be a list, not "a" (write a list: ["a"])`},
		"at":    {"soon", `at: parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"`},
	} {
		err := spec.Bind(map[string]any{key: c.v}, &every{})
		text := fmt.Sprint(err)
		if hint := stepwell.HintOf(err); hint != "" {
			text += " (" + hint + ")"
		}
		if text != c.want || stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%s: %v is %s, want %s", key, c.v, text, c.want)
		}
	}
	if err := spec.Bind(nil, every{}); err == nil {
		t.Error("bound to a value")
	}
}

// Before rendering, a text with a template sets no field of any type; a Raw field keeps it.
func TestBindTemplated(t *testing.T) {
	var c struct {
		every
		Raw2 string `json:"raw2" spec:"raw"`
	}
	err := spec.BindTemplated(map[string]any{"title": "{{ a }}", "ratio": "{{ b }}", "any": "{{ item }}", "raw2": "{{ c }}", "map": map[string]any{"k": "{{ d }}", "l": "x"},
		"tags": []any{"{{ e }}", "a"}, "inner": []any{map[string]any{"ratio": "{{ f }}"}}}, &c)
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "" || c.Any != "{{ item }}" || c.Raw2 != "{{ c }}" || len(c.Map) != 1 || len(c.Tags) != 1 {
		t.Errorf("%+v", c)
	}
	if err := spec.BindTemplated(map[string]any{"ratio": "half"}, &c); err == nil {
		t.Error("a text was taken for a number")
	}
}
