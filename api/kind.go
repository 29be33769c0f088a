package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger"
)

// Kind is a kind of objects that the API serves: Options.Kinds lists them. Of makes one.
type Kind interface {
	// Work is the kind's background loop: its name and its function, which runs until ctx ends; nil: none.
	Work() (name string, run func(ctx context.Context) error)
	rows() []operation // operations that are not in the table
	serve(s *server)
}

// Resource stores the objects of a kind: D is the request that creates one, V the request that changes one, M the
// answer to creating one, S the shown object, and F the list filter (query parameters, with resource.Page in it). A
// pointer to D or V may have Texts (free texts to check for secrets) and Starts (the targets it starts).
type Resource[D, V, M, S, F any] interface {
	Kind() resource.Kind
	Create(ctx context.Context, draft *D, actor string) (*M, error)
	Get(ctx context.Context, idOrName string) (*S, error)
	List(ctx context.Context, f *F) ([]S, error)
	Update(ctx context.Context, id string, revision int64, edit func(*V) error) (*S, error)
	Delete(ctx context.Context, id string, revision int64) error
}

// Of is a kind whose objects are created, listed, shown, changed and deleted.
func Of[D, V, M, S, F any](r Resource[D, V, M, S, F]) Kind {
	return &kindOf[D, V, M, S, F]{Resource: r}
}

// kindOf serves a Resource.
type kindOf[D, V, M, S, F any] struct {
	Resource[D, V, M, S, F]
	kind   resource.Kind
	server *server
	// shown adds fields that only the API knows. Optional.
	shown func(*S)
	// saved adds to the answer to a new or changed object. Defaults to nothing.
	saved func(ctx context.Context, of *S)
	// draft completes a new object. Defaults to nothing.
	draft func(ctx context.Context, d *D) error
}

// Page is a page of a list; Next is the cursor of the next one. In JSON its Items have the name of the list.
type Page[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next_cursor,omitempty"`

	name string
}

// MarshalJSON writes the items under the name of the list.
func (p Page[T]) MarshalJSON() ([]byte, error) {
	if p.Items == nil {
		p.Items = []T{}
	}
	out := map[string]any{p.name: p.Items}
	if p.Next != "" {
		out["next_cursor"] = p.Next
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads a page of any list.
func (p *Page[T]) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for name, member := range members {
		to := any(&p.Items)
		if name == "next_cursor" {
			to = &p.Next
		} else {
			p.name = name
		}
		if err := json.Unmarshal(member, to); err != nil {
			return err
		}
	}
	return nil
}

// Change is a change of a T, as JSON: members that are left out stay as they are.
type Change[T any] struct{ raw json.RawMessage }

// UnmarshalJSON keeps the change.
func (c *Change[T]) UnmarshalJSON(raw []byte) error {
	c.raw = slices.Clone(raw)
	return nil
}

// Fields are the members of a change that a client sends.
type Fields map[string]any

// Shapes of operations on one object. The id is in the path, under the name that the kind gives it.
type (
	draftInput[D any] struct{ Body D }
	seenInput         struct {
		IfNoneMatch string `header:"If-None-Match" maxLength:"2000"`
	}
	changeInput[V any] struct {
		IfMatch string `header:"If-Match" maxLength:"2000"`
		Body    Change[V]
	}
	deleteInput struct {
		IfMatch string `header:"If-Match" maxLength:"2000"`
	}
)

// Work implements Kind: the Run of the resource, if it has one.
func (k *kindOf[D, V, M, S, F]) Work() (name string, run func(ctx context.Context) error) {
	if r, ok := k.Resource.(interface{ Run(context.Context) error }); ok {
		run = r.Run
	}
	return k.Kind().Noun + "s", run
}

func (k *kindOf[D, V, M, S, F]) serve(s *server) {
	k.server, k.kind = s, k.Kind()
	once := sync.OnceFunc(k.shapes)
	shapes, one := func(*huma.Operation) { once() }, s.named(k.kind.Param)
	handle(s, k.kind.Name+".create", k.create, shapes)
	handle(s, k.kind.Name+".list", k.list, shapes)
	handle(s, k.kind.Name+".get", k.get, shapes, one)
	handle(s, k.kind.Name+".update", k.update, shapes, one)
	handle(s, k.kind.Name+".delete", k.delete, one)
}

// rows are the operations of a kind that the table does not name.
func (k *kindOf[D, V, M, S, F]) rows() []operation {
	kind := k.Kind()
	all, one := prefix+"/"+kind.Path, prefix+"/"+kind.Path+"/{"+kind.Param+"}"
	return []operation{
		{kind.Name + ".create", "POST", all, access.Editor, changes | creates, "Creates one " + kind.Noun},
		{kind.Name + ".list", "GET", all, access.Viewer, 0, "Lists " + kind.Noun + "s"},
		{kind.Name + ".get", "GET", one, access.Viewer, 0, "Shows one " + kind.Noun},
		{kind.Name + ".update", "PUT", one, access.Editor, changes, "Changes one " + kind.Noun},
		{kind.Name + ".delete", "DELETE", one, access.Editor, changes, "Deletes one " + kind.Noun + "; executions stay"},
	}
}

func (k *kindOf[D, V, M, S, F]) create(ctx context.Context, in *draftInput[D]) (*made[M], error) {
	var d D
	if err := k.server.edit(ctx, &d, callOf(ctx).body); err != nil {
		return nil, err
	}
	if k.draft != nil {
		if err := k.draft(ctx, &d); err != nil {
			return nil, err
		}
	}
	m, err := k.Create(ctx, &d, access.Of(ctx).Actor())
	if err != nil {
		return nil, err
	}
	status := any(m).(interface{ Shown() *S }).Shown()
	id, revision := identity(status)
	callOf(ctx).object = id
	k.show(status)
	if k.saved != nil {
		k.saved(ctx, status)
	}
	return &made[M]{Status: http.StatusCreated, Location: prefix + "/" + k.kind.Path + "/" + id, ETag: etag(revision), Body: *m}, nil
}

// identity is the id and the revision of an object that is shown.
func identity(status any) (id string, revision int64) {
	return status.(interface{ Identity() string }).Identity(), status.(interface{ ETag() int64 }).ETag()
}

func (k *kindOf[D, V, M, S, F]) list(ctx context.Context, in *F) (*answer[Page[S]], error) {
	p := any(in).(interface{ Paging() *resource.Page }).Paging()
	after, err := cursorOf(k.kind.List, p.Cursor)
	if err != nil {
		return nil, err
	}
	limit := p.Limit
	p.Cursor, p.Limit = after, limit+1
	rows, err := k.List(ctx, in)
	if err != nil {
		return nil, err
	}
	rows, next := page(rows, limit, func(of *S) string { id, _ := identity(of); return id })
	for i := range rows {
		k.show(&rows[i])
	}
	return reply(Page[S]{Items: rows, Next: cursorTo(k.kind.List, next), name: k.kind.List}, nil)
}

// found is the object that the path names.
func (k *kindOf[D, V, M, S, F]) found(ctx context.Context) (of *S, id string, revision int64, err error) {
	named, err := nameIn(ctx, k.kind.Param)
	if err != nil {
		return nil, "", 0, err
	}
	if of, err = k.Get(ctx, named); err == nil {
		id, revision = identity(of)
	}
	return of, id, revision, err
}

func (k *kindOf[D, V, M, S, F]) get(ctx context.Context, in *seenInput) (*tagged[S], error) {
	of, _, revision, err := k.found(ctx)
	if err != nil {
		return nil, err
	}
	if unchanged(in.IfNoneMatch, revision) {
		return nil, notModified(revision)
	}
	k.show(of)
	return &tagged[S]{etag(revision), *of}, nil
}

func (k *kindOf[D, V, M, S, F]) update(ctx context.Context, in *changeInput[V]) (*tagged[S], error) {
	of, id, _, err := k.found(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = id
	of, err = change(in.IfMatch, of, func(of *S) int64 { _, revision := identity(of); return revision }, func(revision int64) (*S, error) {
		return k.Update(ctx, id, revision, func(v *V) error { return k.server.edit(ctx, v, in.Body.raw) })
	}, func() (*S, error) { return k.Get(ctx, id) })
	if err != nil {
		return nil, err
	}
	_, revision := identity(of)
	k.show(of)
	if k.saved != nil {
		k.saved(ctx, of)
	}
	return &tagged[S]{etag(revision), *of}, nil
}

func (k *kindOf[D, V, M, S, F]) delete(ctx context.Context, in *deleteInput) (*struct{}, error) {
	_, id, revision, err := k.found(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = id
	return remove(in.IfMatch, revision, func(revision int64) error { return k.Delete(ctx, id, revision) })
}

// show hides an object's secrets and adds fields that only the API knows.
func (k *kindOf[D, V, M, S, F]) show(of *S) {
	k.server.mask(of)
	if k.shown != nil {
		k.shown(of)
	}
}

// texts is implemented by types with free texts.
type texts interface {
	Texts() map[string]*resource.Object
}

// starts is implemented by types that name a target: their own or, where job is not nil, another job's.
type starts interface {
	Starts() (target **trigger.Target, job *resource.Ref)
}

// mask hides an object's secrets. Shared values are copied, not changed.
func (s *server) mask(of any) {
	if t, ok := of.(texts); ok {
		for _, o := range t.Texts() {
			*o = s.shownObject(*o)
		}
	}
	if t, ok := of.(starts); ok {
		if target, _ := t.Starts(); *target != nil {
			shown := **target
			shown.Params, shown.Authored = s.shownObject(shown.Params), trigger.Authored{}
			*target = &shown
		}
	}
	if t, ok := of.(interface{ Sign(trigger.Authored) }); ok {
		t.Sign(trigger.Authored{})
	}
	if t, ok := of.(interface{ Errors() *resource.Ref }); ok {
		*t.Errors() = Ref(s.text("", string(*t.Errors())))
	}
}

// edit applies a change, as JSON, to an object: omitted members stay as they are. Texts are replaced as a whole, and
// may hold no secret that they did not hold before; a target is checked as trigger.Target.Changed says.
func (s *server) edit(ctx context.Context, of any, raw []byte) error {
	by := trigger.Authored{Role: access.Of(ctx).Role.String(), Author: access.Of(ctx).Actor()}
	written, started := func() error { return nil }, func() error { return nil }
	if t, ok := of.(texts); ok {
		written = s.editTexts(of, t, by)
	}
	if t, ok := of.(starts); ok {
		started = s.editTarget(ctx, t, by)
	}
	keep := func() {}
	if r, ok := of.(interface{ Reset() func() }); ok {
		keep = r.Reset()
	}
	if err := unmarshal(raw, of); err != nil {
		return stepwell.Invalid("", "the body cannot be read: %s", err)
	}
	err := written()
	if keep(); err != nil {
		return err
	}
	return started()
}

func (s *server) editTexts(of any, t texts, by trigger.Authored) (done func() error) {
	was := map[string]Object{}
	for place, o := range t.Texts() {
		was[place], *o = *o, nil
	}
	return func() (err error) {
		for place, o := range t.Texts() {
			if *o == nil {
				*o = was[place]
				continue
			}
			if *o, err = s.written(place, *o, was[place]); err != nil {
				return err
			}
			if signed, ok := of.(interface{ Sign(trigger.Authored) }); ok {
				signed.Sign(by)
			}
		}
		return nil
	}
}

func (s *server) editTarget(ctx context.Context, t starts, by trigger.Authored) (done func() error) {
	target, job := t.Starts()
	if job == nil {
		job = new(Ref)
	}
	was, before := *target, *job
	*target, *job = nil, ""
	return func() (err error) {
		given := *target
		switch {
		case given == nil && *job == "":
			*target, *job = was, before
		case given != nil:
			*target, err = s.changedTarget(ctx, given, was, by)
		}
		return err
	}
}

// changedTarget returns the target that replaces another.
func (s *server) changedTarget(ctx context.Context, given, was *trigger.Target, by trigger.Authored) (_ *trigger.Target, err error) {
	var stored Object
	if was != nil {
		stored = was.Params
	}
	if given.Params, err = s.written("callback.params", given.Params, stored); err != nil {
		return nil, err
	}
	out, err := given.Changed(was, by)
	if err != nil {
		return nil, err
	}
	if callOf(ctx).note("starts", out.Action+out.Workflow); out.Action == "" {
		return out, nil
	}
	return out, s.o.Pipelines.Allowed(out.Role, out.Action)
}

// maxName is the length of the longest id or name in a path.
const maxName = 255

// named describes the part of a path that names an object.
func (s *server) named(param string) func(*huma.Operation) {
	most := maxName
	return func(op *huma.Operation) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: param, In: "path", Required: true, Description: "Its id, or its name.",
			Schema: &huma.Schema{Type: "string", MaxLength: &most, Description: "Its id, or its name."}})
	}
}

// nameIn is the id or name in the path of a request.
func nameIn(ctx context.Context, param string) (string, error) {
	name := callOf(ctx).request.PathValue(param)
	if len(name) > maxName {
		return "", &Problem{Code: "invalid", Message: "validation failed", Details: []Detail{{Location: "path." + param, Message: fmt.Sprintf("expected length <= %d", maxName)}}, status: http.StatusBadRequest}
	}
	return name, nil
}

// shapes names the schemas of a kind by its noun, and applies the tags of its types: hidden is internal, shown:"always"
// is in every answer, change:"never" cannot be changed.
func (k *kindOf[D, V, M, S, F]) shapes() {
	s := k.server
	s.shapeTargets()
	noun := camel(k.kind.Noun)
	for t, name := range map[reflect.Type]string{reflect.TypeFor[D](): "New" + noun, reflect.TypeFor[S](): noun, reflect.TypeFor[Change[V]](): noun + "Change"} {
		s.names[t] = name
	}
	if _, same := s.names[reflect.TypeFor[M]()]; !same {
		s.names[reflect.TypeFor[M]()] = noun + "Made"
	}
	schema := func(t reflect.Type) *huma.Schema { return s.api.OpenAPI().Components.Schemas.Schema(t, false, "") }
	without(schema(reflect.TypeFor[D]()), fieldsWith(reflect.TypeFor[D](), "hidden"))
	for _, t := range []reflect.Type{reflect.TypeFor[S](), reflect.TypeFor[M]()} {
		answered := schema(t)
		without(answered, fieldsWith(t, "hidden"))
		for _, name := range fieldsWith(t, "shown") {
			if !slices.Contains(answered.Required, name) {
				answered.Required = append(answered.Required, name)
			}
		}
	}
	value, changed := schema(reflect.TypeFor[D]()), schema(reflect.TypeFor[Change[V]]())
	if reflect.TypeFor[V]() != reflect.TypeFor[D]() {
		value = huma.SchemaFromType(s.api.OpenAPI().Components.Schemas, reflect.TypeFor[V]())
		without(value, fieldsWith(reflect.TypeFor[V](), "hidden"))
	}
	*changed = *value
	changed.Properties, changed.Required = map[string]*huma.Schema{}, nil
	for name, property := range value.Properties {
		changed.Properties[name] = property
	}
	without(changed, fieldsWith(reflect.TypeFor[V](), "change"))
	listed[S](s, noun+"List", k.kind.List)(nil)
}

// listed names the schema of a page of Ts, and its items as JSON has them.
func listed[T any](s *server, name, items string) func(*huma.Operation) {
	return func(*huma.Operation) {
		s.names[reflect.TypeFor[Page[T]]()] = name
		page := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Page[T]](), false, "")
		page.Properties[items], page.Required = page.Properties["items"], []string{items}
		without(page, []string{"items"})
	}
}

// hides removes internal fields from the schema of a T.
func hides[T any](s *server) func(*huma.Operation) {
	return func(*huma.Operation) {
		t := reflect.TypeFor[T]()
		without(s.api.OpenAPI().Components.Schemas.Schema(t, false, ""), fieldsWith(t, "hidden"))
	}
}

// shapeTargets gives the schemas of targets and timings examples, and removes internal fields.
func (s *server) shapeTargets() {
	schemas := s.api.OpenAPI().Components.Schemas
	hides[trigger.Target](s)(nil)
	schemas.Schema(reflect.TypeFor[trigger.Target](), false, "").Examples = []any{map[string]any{"type": "action", "action_type": "util.log", "params": map[string]any{"message": "Hello"}}}
	schemas.Schema(reflect.TypeFor[trigger.Timing](), false, "").Examples = []any{map[string]any{"type": "cron", "expression": "0 9 * * 1-5", "timezone": "America/New_York"}, map[string]any{"type": "interval", "expression": "@every 30m"}}
}

func camel(words string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(words) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// without takes properties out of a schema.
func without(s *huma.Schema, names []string) {
	for _, name := range names {
		delete(s.Properties, name)
	}
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return slices.Contains(names, name) })
	s.PrecomputeMessages()
}

// fieldsWith are the JSON names of the fields of a struct that have a tag.
func fieldsWith(t reflect.Type, tag string) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if _, tagged := f.Tag.Lookup(tag); tagged {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
