package persistentvolumelabel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	sigv4Algorithm = "AWS4-HMAC-SHA256"
	sigv4Time      = "20060102T150405Z"
	sigv4Date      = "20060102"
)

// sign signs a request by AWS' Signature Version 4,
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html, with all the headers that
// it has. The request's path must be / and its query empty, as they are with AWS' Query protocol
// when it is posted; so none of what the specification says of encoding these is needed.
func sign(request *http.Request, body []byte, c awsCredentials, region, service string, now time.Time) {
	now = now.UTC()
	request.Header.Set("X-Amz-Date", now.Format(sigv4Time))
	if c.sessionToken != "" {
		request.Header.Set("X-Amz-Security-Token", c.sessionToken)
	}

	headers := map[string]string{"host": request.URL.Host}
	for name, values := range request.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	names := slices.Sorted(maps.Keys(headers))
	signed := strings.Join(names, ";")
	var canonical strings.Builder
	canonical.WriteString(request.Method + "\n/\n\n")
	for _, name := range names {
		canonical.WriteString(name + ":" + strings.TrimSpace(headers[name]) + "\n")
	}
	canonical.WriteString("\n" + signed + "\n" + hash(body))

	scope := now.Format(sigv4Date) + "/" + region + "/" + service + "/aws4_request"
	toSign := sigv4Algorithm + "\n" + now.Format(sigv4Time) + "\n" + scope + "\n" + hash([]byte(canonical.String()))
	key := []byte("AWS4" + c.secretAccessKey)
	for _, part := range []string{now.Format(sigv4Date), region, service, "aws4_request", toSign} {
		key = hmacSHA256(key, part)
	}
	request.Header.Set("Authorization",
		sigv4Algorithm+" Credential="+c.accessKeyID+"/"+scope+", SignedHeaders="+signed+
			", Signature="+hex.EncodeToString(key))
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func hmacSHA256(key []byte, data string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(data))
	return mac.Sum(nil)
}
