"""What a private step costs, beside a step without privacy and beside other packages."""
