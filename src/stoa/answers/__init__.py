"""Examples of answers: what the examples of requests are answered, made by the rules that answer them."""
