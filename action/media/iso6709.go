package media

import (
	"math"
	"strconv"
	"strings"
)

// parseISO6709 reads a point in the string form of ISO 6709 annex H: latitude and longitude as
// ±DD.D, ±DDMM.M or ±DDMMSS.S (one digit more for longitude), an optional altitude in metres, an
// optional CRS and the closing slash, which cameras sometimes leave out.
func parseISO6709(s string) (GPS, bool) {
	s = strings.TrimSuffix(strings.TrimSpace(s), "/")
	if i := strings.Index(s, "CRS"); i >= 0 {
		s = s[:i]
	}
	var parts []string
	for len(s) > 0 && len(parts) < 4 {
		if s[0] != '+' && s[0] != '-' {
			return GPS{}, false
		}
		end := strings.IndexAny(s[1:], "+-")
		if end < 0 {
			end = len(s) - 1
		}
		parts, s = append(parts, s[:end+1]), s[end+1:]
	}
	if len(parts) < 2 || len(parts) > 3 || s != "" {
		return GPS{}, false
	}
	lat, ok1 := sexagesimal(parts[0], 2)
	lon, ok2 := sexagesimal(parts[1], 3)
	if !ok1 || !ok2 || !validPosition(lat, lon) {
		return GPS{}, false
	}
	g := GPS{Lat: lat, Lon: lon}
	if len(parts) == 3 {
		alt, ok := number(parts[2][1:])
		if !ok {
			return GPS{}, false
		}
		if parts[2][0] == '-' {
			alt = -alt
		}
		g.Alt = &alt
	}
	return g, true
}

func sexagesimal(s string, degrees int) (float64, bool) {
	sign, s := s[0], s[1:]
	whole, _, _ := strings.Cut(s, ".")
	var v float64
	var d, m, sec float64
	var ok1, ok2, ok3 = true, true, true
	switch len(whole) {
	case degrees:
		d, ok1 = number(s)
	case degrees + 2:
		d, ok1 = number(s[:degrees])
		m, ok2 = number(s[degrees:])
	case degrees + 4:
		d, ok1 = number(s[:degrees])
		m, ok2 = number(s[degrees : degrees+2])
		sec, ok3 = number(s[degrees+2:])
	default:
		return 0, false
	}
	if !ok1 || !ok2 || !ok3 || m >= 60 || sec >= 60 {
		return 0, false
	}
	v = d + m/60 + sec/3600
	if sign == '-' && v != 0 {
		v = -v
	}
	return v, true
}

// number reads plain decimal digits with an optional fraction; no exponent, sign or name.
func number(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

func validPosition(lat, lon float64) bool {
	return math.Abs(lat) <= 90 && math.Abs(lon) <= 180 // false for NaN, too
}
