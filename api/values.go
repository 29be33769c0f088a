package api

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell/resource"
)

// Values are as package resource writes them.
type (
	Time   = resource.Time
	Ref    = resource.Ref
	Object = resource.Object
	Detail = resource.Detail
)

// Schemas of the values, for the description.
type (
	timeSchema   struct{}
	refSchema    struct{}
	objectSchema struct{}
)

// Schema implements huma.SchemaProvider.
func (timeSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", Format: "date-time", Nullable: true}
}

// Schema implements huma.SchemaProvider.
func (refSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", Nullable: true}
}

// Schema implements huma.SchemaProvider.
func (objectSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "object", AdditionalProperties: true, Examples: []any{map[string]any{"message": "Hello"}}}
}

// registry is where the schemas of types are.
func (s *server) registry() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", s.schemaName)
	for t, alias := range map[reflect.Type]reflect.Type{reflect.TypeFor[Time](): reflect.TypeFor[timeSchema](), reflect.TypeFor[Ref](): reflect.TypeFor[refSchema](),
		reflect.TypeFor[Object](): reflect.TypeFor[objectSchema](), reflect.TypeFor[Document](): reflect.TypeFor[documentSchema]()} {
		r.RegisterTypeAlias(t, alias)
	}
	for t, alias := range runSchemas {
		r.RegisterTypeAlias(t, alias)
	}
	return r
}

// micro is a moment in microseconds since 1970, 0 for none.
func micro(us int64) Time {
	if us == 0 {
		return Time{}
	}
	return Time{Time: time.UnixMicro(us)}
}

// Money is an amount in millionths of a unit. It is written as a decimal in a string, such as "0.0125", so that clients
// do not round it.
type Money int64

// MarshalText writes the decimal, without zeros at its end.
func (m Money) MarshalText() ([]byte, error) {
	sign, n := "", uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%06d", sign, n/1e6, n%1e6)
	return []byte(strings.TrimSuffix(strings.TrimRight(text, "0"), ".")), nil
}

// UnmarshalText reads the format of MarshalText.
func (m *Money) UnmarshalText(text []byte) error {
	whole, part, _ := strings.Cut(string(text), ".")
	n, err := strconv.ParseInt(whole+(part + "000000")[:6], 10, 64)
	if err != nil || len(part) > 6 || whole == "" {
		return fmt.Errorf("%.40q is not an amount: write it like 0.0125", text)
	}
	*m = Money(n)
	return nil
}

// Schema is for the description.
func (Money) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", Pattern: `^-?[0-9]+(\.[0-9]{1,6})?$`, Examples: []any{"0.0125"}}
}
