package spec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/stepwell/stepwell"
)

// Bind sets a struct, by its keys, from values that passed Check. An absent or null value leaves the field as it is,
// so that a struct with defaults may be given. A value of another type than the field is CodeInvalid.
func Bind(values map[string]any, into any) error {
	b := binder{}
	return b.bindAll(values, into)
}

// BindTemplated is Bind for values that are still to be rendered. A text that contains a tag sets nothing, except where
// the field is Raw.
func BindTemplated(values map[string]any, into any) error {
	b := binder{templates: true}
	return b.bindAll(values, into)
}

// Binder binds values to structs of one type, whose fields it knows. It may be used by many at once.
type Binder struct {
	of     reflect.Type
	fields []bound
}

// bound is a field with its key.
type bound struct {
	key   string
	tag   reflect.StructTag
	index []int
}

// BinderOf makes the binder for structs of the type T.
func BinderOf[T any]() *Binder {
	b := &Binder{of: reflect.TypeFor[T]()}
	b.fields = boundFields(b.of)
	return b
}

func boundFields(t reflect.Type) (fields []bound) {
	members(t, nil, func(key string, f *reflect.StructField, index []int) {
		fields = append(fields, bound{key, f.Tag, index})
	})
	return fields
}

// Bind is the function Bind, for a pointer to a T.
func (b *Binder) Bind(values map[string]any, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.Elem().Type() != b.of {
		return fmt.Errorf("spec: cannot bind values to %T, only to a pointer to %s", into, b.of)
	}
	one := binder{}
	return one.bindFields(values, v.Elem(), b.fields)
}

// binder sets Go values from plain ones.
type binder struct {
	templates bool // a text with {{ may stand anywhere
	keys      []string
}

func (b *binder) bindAll(values map[string]any, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("spec: cannot bind values to %T, only to a pointer to a struct", into)
	}
	return b.bindStruct(values, v.Elem())
}

func (b *binder) bindStruct(values map[string]any, into reflect.Value) error {
	return b.bindFields(values, into, boundFields(into.Type()))
}

func (b *binder) bindFields(values map[string]any, into reflect.Value, fields []bound) error {
	for i := range fields {
		f := &fields[i]
		v := values[f.key]
		if v == nil {
			continue
		}
		if text, ok := v.(string); ok && b.templates && Templated(text) && !slices.ContainsFunc(split(f.tag.Get("spec")), isRaw) {
			continue
		}
		if err := b.bindBelow(f.key, v, into.FieldByIndex(f.index)); err != nil {
			return err
		}
	}
	return nil
}

func isRaw(word string) bool { return word == "raw" || word == "bare" }

func (b *binder) bindBelow(key string, v any, into reflect.Value) error {
	b.keys = append(b.keys, key)
	err := b.bind(v, into)
	b.keys = b.keys[:len(b.keys)-1]
	return err
}

// wrong says that the value is not of the type that the field has.
func (b *binder) wrong(v any, t reflect.Type) error {
	field := described{}.typeField(t)
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: at(b.keys) + " must be " + typeNames[field.Type] + not(v, false), Hint: advice(field.Type, v)}
}

// bind sets one value. It is a table of types.
func (b *binder) bind(v any, into reflect.Value) error {
	t := into.Type()
	if t.Kind() == reflect.Pointer {
		p := reflect.New(t.Elem())
		if err := b.bind(v, p.Elem()); err != nil {
			return err
		}
		into.Set(p)
		return nil
	}
	text, isText := v.(string)
	if t == durationType {
		length, err := ParseDuration(v)
		if err != nil {
			return b.wrong(v, t)
		}
		into.SetInt(int64(length))
		return nil
	}
	if t == rawType {
		raw, err := json.Marshal(v)
		into.SetBytes(raw)
		return err
	}
	if u, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return b.bindText(v, u)
	}
	switch t.Kind() {
	case reflect.String:
		if isText {
			into.SetString(text)
			return nil
		}
	case reflect.Bool:
		if flag, ok := v.(bool); ok {
			into.SetBool(flag)
			return nil
		}
	case reflect.Float32, reflect.Float64:
		if n, ok := number(v); ok {
			into.SetFloat(n)
			return nil
		}
	case reflect.Slice:
		return b.bindList(v, into)
	case reflect.Map:
		return b.bindMap(v, into)
	case reflect.Struct:
		if values, ok := v.(map[string]any); ok {
			return b.bindStruct(values, into)
		}
	case reflect.Interface:
		into.Set(reflect.ValueOf(v))
		return nil
	default:
		n, _ := toInteger(v)
		if whole, ok := n.(int64); ok && into.CanInt() && !into.OverflowInt(whole) {
			into.SetInt(whole)
			return nil
		} else if ok && into.CanUint() && whole >= 0 && !into.OverflowUint(uint64(whole)) {
			into.SetUint(uint64(whole))
			return nil
		}
	}
	return b.wrong(v, t)
}

// bindText hands a value to a type that reads texts; a number is the text that it is written as.
func (b *binder) bindText(v any, into encoding.TextUnmarshaler) error {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case float64:
		text = strconv.FormatFloat(v, 'g', -1, 64)
	case int64, int, bool, json.Number:
		text = fmt.Sprint(v)
	default:
		return b.wrong(v, reflect.TypeFor[string]())
	}
	if err := into.UnmarshalText([]byte(text)); err != nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: at(b.keys) + ": " + err.Error(), Hint: stepwell.HintOf(err)}
	}
	return nil
}

func (b *binder) bindList(v any, into reflect.Value) error {
	given := reflect.ValueOf(v)
	if given.Kind() != reflect.Slice {
		return b.wrong(v, into.Type())
	}
	if given.Type() == into.Type() && !b.templates {
		into.Set(given)
		return nil
	}
	list := reflect.MakeSlice(into.Type(), 0, given.Len())
	for i := range given.Len() {
		item := given.Index(i).Interface()
		if text, ok := item.(string); ok && b.templates && Templated(text) {
			continue
		}
		e := reflect.New(into.Type().Elem()).Elem()
		if item != nil {
			if err := b.bindBelow(strconv.Itoa(i), item, e); err != nil {
				return err
			}
		}
		list = reflect.Append(list, e)
	}
	into.Set(list)
	return nil
}

func (b *binder) bindMap(v any, into reflect.Value) error {
	given := reflect.ValueOf(v)
	if given.Kind() != reflect.Map || given.Type().Key().Kind() != reflect.String {
		return b.wrong(v, into.Type())
	}
	if given.Type() == into.Type() {
		into.Set(given)
		return nil
	}
	m := reflect.MakeMapWithSize(into.Type(), given.Len())
	for iter := given.MapRange(); iter.Next(); {
		key, item := iter.Key().String(), iter.Value().Interface()
		if text, ok := item.(string); ok && b.templates && Templated(text) {
			continue
		}
		e := reflect.New(into.Type().Elem()).Elem()
		if item != nil {
			if err := b.bindBelow(key, item, e); err != nil {
				return err
			}
		}
		m.SetMapIndex(reflect.ValueOf(key).Convert(into.Type().Key()), e)
	}
	into.Set(m)
	return nil
}
