package main

import (
	"encoding"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// maxSettingsDepth bounds how deep settings are nested; anchors may make them endless.
const maxSettingsDepth = 20

// settingsDecoder reads a mapping of the settings file into a struct by its yaml tags. Unknown and repeated
// keys and values of the wrong kind are errors with their place.
type settingsDecoder struct{ file string }

func (d settingsDecoder) wrong(n *yaml.Node, hint, format string, args ...any) error {
	return stepwell.Invalid(hint, "%s:%d:%d: "+format, append([]any{d.file, n.Line, n.Column}, args...)...)
}

// decode sets v from n; path is where n stands, for messages.
func (d settingsDecoder) decode(n *yaml.Node, v reflect.Value, path string, depth int) error {
	if depth > maxSettingsDepth {
		return d.wrong(n, "", "%s is nested too deeply", path)
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Tag == "!!null" {
		return nil // as if it were not there
	}
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return d.text(n, t, path)
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.structure(n, v, path, depth)
	case reflect.Map:
		return d.mapping(n, v, path, depth)
	case reflect.Slice:
		return d.list(n, v, path, depth)
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		v.Set(p)
		return d.decode(n, p.Elem(), path, depth+1)
	case reflect.Interface:
		var value any
		if err := n.Decode(&value); err != nil {
			return d.wrong(n, "", "%s: %v", path, err)
		}
		if value != nil {
			v.Set(reflect.ValueOf(value))
		}
		return nil
	}
	return d.scalar(n, v, path)
}

func (d settingsDecoder) text(n *yaml.Node, t encoding.TextUnmarshaler, path string) error {
	if n.Kind != yaml.ScalarNode {
		return d.wrong(n, "", "%s is not a single value", path)
	}
	if err := t.UnmarshalText([]byte(n.Value)); err != nil {
		return d.wrong(n, stepwell.HintOf(err), "%s: %v", path, err)
	}
	return nil
}

func (d settingsDecoder) structure(n *yaml.Node, v reflect.Value, path string, depth int) error {
	fields := map[string]int{}
	var known []string
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		fields[name] = i
		known = append(known, name)
	}
	return d.entries(n, path, func(key, value *yaml.Node) error {
		i, ok := fields[key.Value]
		if !ok {
			return d.wrong(key, didYouMean(key.Value, known), "unknown key %q", join(path, key.Value))
		}
		return d.decode(value, v.Field(i), join(path, key.Value), depth+1)
	})
}

func (d settingsDecoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) error {
	m := reflect.MakeMap(v.Type())
	err := d.entries(n, path, func(key, value *yaml.Node) error {
		e := reflect.New(v.Type().Elem()).Elem()
		if err := d.decode(value, e, join(path, key.Value), depth+1); err != nil {
			return err
		}
		m.SetMapIndex(reflect.ValueOf(key.Value), e)
		return nil
	})
	v.Set(m)
	return err
}

// entries calls f for each key of a mapping.
func (d settingsDecoder) entries(n *yaml.Node, path string, f func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return d.wrong(n, "", "%s is not a mapping of names to values", path)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			return d.wrong(key, "", "%s is there twice", join(path, key.Value))
		}
		seen[key.Value] = true
		if err := f(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (d settingsDecoder) list(n *yaml.Node, v reflect.Value, path string, depth int) error {
	if n.Kind != yaml.SequenceNode {
		return d.wrong(n, "", "%s is not a list", path)
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if err := d.decode(item, list.Index(i), path+"["+strconv.Itoa(i)+"]", depth+1); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

func (d settingsDecoder) scalar(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.ScalarNode {
		return d.wrong(n, "", "%s is not a single value", path)
	}
	text := n.Value
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Int, reflect.Int64:
		if i, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64); err == nil {
			v.SetInt(i)
			return nil
		}
		return d.wrong(n, "", "%s: %q is no whole number", path, text)
	case reflect.Float64:
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			v.SetFloat(f)
			return nil
		}
		return d.wrong(n, "", "%s: %q is no number", path, text)
	case reflect.Bool:
		if text == "true" || text == "false" {
			v.SetBool(text == "true")
			return nil
		}
		return d.wrong(n, "", "%s: %q is neither true nor false", path, text)
	}
	return d.wrong(n, "", "%s cannot be set here", path)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// didYouMean is the hint for a key that is not among those known.
func didYouMean(key string, known []string) string {
	if near := spec.Closest(key, known); near != "" {
		return "did you mean " + near + "?"
	}
	known = slices.Sorted(slices.Values(known))
	return "the keys are " + strings.Join(known, ", ")
}
