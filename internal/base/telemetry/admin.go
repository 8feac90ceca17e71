package telemetry

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the admin listener.
const (
	AdminConnections = 64 // at the same time

	scrapes    = 4 // at the same time; further ones get 503, so that slow readers cannot occupy the service
	scrapeTime = 10 * time.Second
	readyTime  = 3 * time.Second
	// profileTime is limited here, because package pprof does not limit it and a profile runs for its whole duration
	// before it is written.
	profileTime = 60 * time.Second
	writeTime   = profileTime + 5*time.Second
)

// Readiness says whether the service accepts requests, and why not.
type Readiness struct {
	Status string `json:"status"`           // ok, starting, draining or unavailable
	Reason string `json:"reason,omitempty"` // a sentence for operators
}

// Admin returns the server of the admin listener. ready is called for each request of
// /readyz, with a timeout of 3 s. profiles enables /debug/pprof/.
func Admin(m *Metrics, ready func(context.Context) Readiness, profiles bool) *http.Server {
	mux := http.NewServeMux()
	metrics := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes, Timeout: scrapeTime})
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeReadiness(w, Readiness{Status: "ok"}) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTime)
		defer cancel()
		writeReadiness(w, ready(ctx))
	})
	if profiles {
		for path, h := range map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
			mux.HandleFunc("GET /debug/pprof/"+path, shortProfile(h))
		}
	}
	return &http.Server{
		Handler:           limited(mux),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      writeTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// shortProfile rejects profiles longer than [profileTime].
func shortProfile(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if text := r.FormValue("seconds"); text != "" {
			if n, err := strconv.ParseFloat(text, 64); err != nil || n < 0 || n > profileTime.Seconds() {
				http.Error(w, "seconds must be a number from 0 to 60", http.StatusBadRequest)
				return
			}
		}
		next(w, r)
	}
}

// limited refuses bodies, because no path reads one, and disables caching.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 0)
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

func writeReadiness(w http.ResponseWriter, r Readiness) {
	w.Header().Set("Content-Type", "application/json")
	if r.Status != "ok" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(r) // an error is ignored, because the client may have disconnected
}
