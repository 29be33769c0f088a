package access

import (
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stepwell/stepwell"
)

// claim finds a claim by its name, or by a path of names such as realm_access.roles.
func claim(c jwt.MapClaims, path string) any {
	if v, ok := c[path]; ok { // such as https://example.org/roles
		return v
	}
	var at any = map[string]any(c)
	for name := range strings.SplitSeq(path, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[name]
	}
	return at
}

// words are the texts of a claim: a list, or one text with spaces between them (as scope is written).
func words(v any) []string {
	switch v := v.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		var out []string
		for _, one := range v {
			if s, ok := one.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// role is the highest role that a claim gives.
func (j *JWT) role(c jwt.MapClaims) Role {
	best := j.o.DefaultRole
	for _, word := range words(claim(c, j.o.RoleClaim)) {
		got, ok := j.o.Roles[word]
		if !ok && len(j.o.Roles) == 0 {
			got, ok = roleOf(word)
		}
		if ok {
			best = max(best, got)
		}
	}
	return best
}

// name is the subject of the token.
func (j *JWT) name(c jwt.MapClaims) string {
	name, _ := claim(c, j.o.NameClaim).(string)
	if name == "" {
		name, _ = c["sub"].(string)
	}
	return stepwell.Head(name, maxName)
}
