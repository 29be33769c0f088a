package spec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FieldsOf gives the fields of a struct by its tags, which the package documentation lists. It panics on a tag
// that cannot be read, as regexp.MustCompile does: call it where the program starts.
func FieldsOf[T any]() []Field { return described{}.fieldsOf(reflect.TypeFor[T]()) }

// keyOf is the name of a struct's field in documents, "" for a field that documents cannot set. The key tag, for
// fields stored under another name, precedes the json tag.
func keyOf(f *reflect.StructField) string {
	if !f.IsExported() {
		return ""
	}
	name, given := f.Tag.Lookup("key")
	if !given {
		name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	}
	if name == "-" {
		return ""
	}
	return name
}

// members calls visit for every field of a struct that has a key, those of embedded structs in their place.
func members(t reflect.Type, index []int, visit func(key string, f *reflect.StructField, index []int)) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(index), i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct && f.Tag.Get("json") == "" {
			members(f.Type, at, visit)
		} else if key := keyOf(&f); key != "" {
			visit(key, &f, at)
		}
	}
}

// described has the fields of the structs described so far, and nil for those being described: a tree of structs ends
// where it repeats one.
type described map[reflect.Type][]Field

// fieldsOf gives a struct's fields.
func (d described) fieldsOf(t reflect.Type) []Field {
	if fields, ok := d[t]; ok {
		return fields
	}
	d[t] = nil
	fields := []Field{}
	members(t, nil, func(key string, f *reflect.StructField, _ []int) { fields = append(fields, d.field(key, f)) })
	d[t] = fields
	return fields
}

// field describes a struct's field by its type and its tags.
func (d described) field(key string, f *reflect.StructField) Field {
	field := d.typeField(f.Type)
	field.Name = key
	field.readTags(f.Tag)
	return field
}

var (
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	rawType      = reflect.TypeFor[json.RawMessage]()
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

// typeField describes a field by its Go type. It is a table of types.
func (d described) typeField(t reflect.Type) Field {
	switch {
	case t.Kind() == reflect.Pointer:
		return d.typeField(t.Elem())
	case t == durationType:
		return Field{Type: Duration}
	case t == timeType:
		return Field{Type: Time}
	case t == rawType:
		return Field{Type: Any}
	case reflect.PointerTo(t).Implements(textType):
		return Field{Type: String}
	}
	switch t.Kind() {
	case reflect.String:
		return Field{Type: String}
	case reflect.Bool:
		return Field{Type: Boolean}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Field{Type: Integer}
	case reflect.Float32, reflect.Float64:
		return Field{Type: Number}
	case reflect.Slice:
		items := d.typeField(t.Elem())
		if items.Type == Any {
			return Field{Type: Array}
		}
		return Field{Type: Array, Items: &items}
	case reflect.Map:
		return Field{Type: Object}
	case reflect.Struct:
		return Field{Type: Object, Fields: d.fieldsOf(t)}
	case reflect.Interface:
		return Field{Type: Any}
	}
	panic(fmt.Sprintf("spec: a field cannot be of the type %s", t))
}

// readTags completes a field by its tags; a list's tags for texts and numbers are about its elements.
func (f *Field) readTags(tag reflect.StructTag) {
	f.Doc, f.Unit = strings.ReplaceAll(tag.Get("doc"), "´", "`"), tag.Get("unit")
	f.Required, f.Secret = tag.Get("required") == "true", tag.Get("writeOnly") == "true"
	for word := range strings.SplitSeq(tag.Get("spec"), ",") {
		switch word {
		case "", "zero", "not", "dates":
		case "secret":
			f.Secret = true
		case "limit":
			f.Limit = true
		case "raw":
			f.Raw = true
		case "bare":
			f.Raw, f.Bare = true, true
		case string(Ref), string(Duration), string(Time), string(Any):
			f.Type = Type(word)
		default:
			if !strings.HasPrefix(word, "before=") {
				panic(fmt.Sprintf("spec: field %s: unknown word %q", f.Name, word))
			}
		}
	}
	if names, ok := tag.Lookup("names"); ok {
		f.Names = split(names)
	}
	f.bound(tag, "minItems", "maxItems")
	inner := f
	for inner.Type == Array && inner.Items != nil {
		inner = inner.Items
	}
	if enum, ok := tag.Lookup("enum"); ok {
		inner.Enum = split(enum)
	}
	if pattern, ok := tag.Lookup("pattern"); ok {
		inner.Pattern = pattern
	}
	inner.bound(tag, "minimum", "maximum")
	inner.bound(tag, "minLength", "maxLength")
	if _, inner.Above = tag.Lookup("exclusiveMinimum"); inner.Above {
		inner.bound(tag, "exclusiveMinimum", "")
	}
	if text, ok := tag.Lookup("default"); ok {
		f.Default = f.parseDefault(text)
	}
}

func split(list string) []string {
	if list == "" {
		return []string{}
	}
	return strings.Split(list, ",")
}

func (f *Field) bound(tag reflect.StructTag, low, high string) {
	for _, b := range []struct {
		name string
		into **float64
	}{{low, &f.Min}, {high, &f.Max}} {
		if text, ok := tag.Lookup(b.name); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				panic(fmt.Sprintf("spec: field %s: %s: %v", f.Name, b.name, err))
			}
			*b.into = &n
		}
	}
}

// parseDefault reads a default tag: a text as it is, everything else as JSON.
func (f *Field) parseDefault(text string) any {
	switch f.Type {
	case String, Ref, Time, Duration:
		return text
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(fmt.Sprintf("spec: default of field %s: %v", f.Name, err))
	}
	if n, whole := toInteger(v); f.Type == Integer && whole {
		return n
	}
	return v
}
