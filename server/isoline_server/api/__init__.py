"""gRPC in. Wire types stop here: servicers translate, call an operation, translate back."""
